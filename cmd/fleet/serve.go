package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers"
)

const serveHelp = `serve runs the server alone: API, relay and reconciler, for workers that run elsewhere. Queues and their
permissions come from the AWS configuration of the environment (AWS_REGION, AWS_ENDPOINT_URL_SQS, ...).
The schema must be up to date: see fleet migrate.`

func newServe(getenv func(string) string) *cobra.Command {
	server := fleet.Remote{Pipeline: workers.Stages}
	var limits limits
	var proxies string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the server without workers", Long: serveHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet serve --env prod --database postgres://fleet@db/fleet --objects s3://bucket/fleet",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkSettings(); err != nil {
				return err
			}
			err := cmp.Or(needed(server.Database, "database", worker.EnvDatabase), needed(server.Env, "env", stage.EnvName), needed(server.Place, "objects", worker.EnvBlob))
			if err != nil {
				return err
			}
			if server.Limits, err = limits.parse(); err != nil {
				return err
			}
			if server.Providers, err = fleet.ParseProviders(getenv(fleet.EnvProviders)); err != nil {
				return usageError{err}
			}
			if server.Proxies, err = fleet.ParseProxies(proxies); err != nil {
				return usageError{err}
			}
			ctx, _, stop := stopSignals(cmd)
			defer stop()
			server.Log = cmd.ErrOrStderr()
			server.Emit = getenv(worker.EnvMetrics) == worker.MetricsEMF
			server.Ready = func(addr string) { fmt.Fprintf(cmd.OutOrStdout(), "The API answers at http://%s\n", addr) }
			return server.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&server.Env, "env", getenv(stage.EnvName), "name of the environment in queue names; "+stage.EnvName+" sets the default")
	cmd.Flags().StringVar(&server.Addr, "addr", addrOf(getenv), "address of the API, host:port; beyond the loopback interface only once there are keys")
	cmd.Flags().StringVar(&server.Place, "objects", getenv(worker.EnvBlob), "object store, file:///folder or s3://bucket/prefix; "+worker.EnvBlob+" sets the default")
	cmd.Flags().Int64Var(&server.Price, "price", 0, "units that a job costs its account; failed and refused jobs are refunded")
	databaseFlag(cmd, &server.Database, getenv)
	limits.flags(cmd, getenv)
	proxiesFlag(cmd, &proxies, getenv)
	return cmd
}

// needed refuses a command line without something that it cannot do without.
func needed(value, flag, variable string) error {
	if value == "" {
		return usageError{fmt.Errorf("--%s is missing; %s sets it too", flag, variable)}
	}
	return nil
}

// limits are those of the jobs of all accounts, as text.
type limits struct{ soft, hard string }

func (l *limits) flags(cmd *cobra.Command, getenv func(string) string) {
	cmd.Flags().StringVar(&l.soft, "soft-limit", cmp.Or(getenv(fleet.EnvSoftLimit), strconv.Itoa(fleet.DefaultSoftLimit)),
		"with so many jobs in flight, further ones wait for capacity, 0: no limit; "+fleet.EnvSoftLimit+" sets the default")
	cmd.Flags().StringVar(&l.hard, "hard-limit", cmp.Or(getenv(fleet.EnvHardLimit), strconv.Itoa(fleet.DefaultHardLimit)),
		"with so many, further ones are refused, 0: no limit; "+fleet.EnvHardLimit+" sets the default")
}

func (l *limits) parse() (fleet.Limits, error) {
	parsed, err := fleet.ParseLimits(l.soft, l.hard)
	if err != nil {
		return fleet.Limits{}, usageError{err}
	}
	return parsed, nil
}

func proxiesFlag(cmd *cobra.Command, proxies *string, getenv func(string) string) {
	cmd.Flags().StringVar(proxies, "trusted-proxies", getenv(fleet.EnvProxies),
		"load balancers and other proxies, addresses and networks such as 10.0.0.0/24,192.0.2.7, whose X-Forwarded-For says who a caller is; "+fleet.EnvProxies+" sets the default (nobody)")
}

func databaseFlag(cmd *cobra.Command, database *string, getenv func(string) string) {
	cmd.Flags().StringVar(database, "database", getenv(worker.EnvDatabase), "record, sqlite:PATH or postgres://...; "+worker.EnvDatabase+" sets the default")
}
