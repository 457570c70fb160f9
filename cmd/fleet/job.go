package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
)

func newJob(getenv func(string) string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: "job ID", Short: "Show one job", Args: usage(cobra.ExactArgs(1)),
		Long:    "job shows one job: its state, every step with its attempts, and where its result is.",
		Example: "  fleet job ID\n  fleet job ID --json | jq .steps",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				j, err := fleet.Job(ctx, args[0])
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, j)
				}
				out := cmd.OutOrStdout()
				fmt.Fprintf(out, "job %s: version %d of %s\n", j.ID, j.Version, printable(j.Target))
				for _, r := range rows(j, time.Now()) {
					fmt.Fprintln(out, r)
				}
				fmt.Fprint(out, summary(j))
				return nil
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}
