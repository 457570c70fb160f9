package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
)

func newCancel(getenv func(string) string) *cobra.Command {
	var c client
	var reason string
	cmd := &cobra.Command{
		Use: "cancel JOB", Short: "End a job that has not ended", Args: usage(cobra.ExactArgs(1)),
		Long: "cancel ends a job. What runs for it is told at its next beat and stops; what it was charged is given back only if\n" +
			"nothing of it has run. It may be repeated. A job that has ended otherwise stays as it is (exit code 4).",
		Example: "  fleet cancel JOB --reason 'wrong file'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				j, err := fleet.Cancel(ctx, args[0], reason)
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, j)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "job %s is %s\n", j.ID, words(j.State))
				return nil
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return cmd
}
