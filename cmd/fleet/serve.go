package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers"
)

const serveHelp = `serve runs the server alone: API, relay and reconciler, for workers that run elsewhere. Queues and their
permissions come from the AWS configuration of the environment (AWS_REGION, AWS_ENDPOINT_URL_SQS, ...).
The schema must be up to date: see fleet migrate.`

func newServe(getenv func(string) string) *cobra.Command {
	server := fleet.Remote{Pipeline: workers.Stages}
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server without workers", Long: serveHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet serve --env prod --database postgres://fleet@db/fleet --objects s3://bucket/fleet",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, _, stop := stopSignals(cmd)
			defer stop()
			server.Log = cmd.ErrOrStderr()
			server.Emit = getenv(worker.EnvMetrics) == worker.MetricsEMF
			server.Ready = func(addr string) { fmt.Fprintf(cmd.OutOrStdout(), "The API answers at http://%s\n", addr) }
			return server.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&server.Env, "env", getenv("FLEET_ENV"), "name of the environment in queue names; FLEET_ENV sets the default")
	cmd.Flags().StringVar(&server.Addr, "addr", addrOf(getenv), "address of the API, host:port on the loopback interface")
	cmd.Flags().StringVar(&server.Place, "objects", getenv(worker.EnvBlob), "object store, file:///folder or s3://bucket/prefix; "+worker.EnvBlob+" sets the default")
	databaseFlag(cmd, &server.Database, getenv)
	return cmd
}

func databaseFlag(cmd *cobra.Command, database *string, getenv func(string) string) {
	cmd.Flags().StringVar(database, "database", getenv(worker.EnvDatabase), "record, sqlite:PATH or postgres://...; "+worker.EnvDatabase+" sets the default")
}
