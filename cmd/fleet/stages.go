package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
)

func newStages(getenv func(string) string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: "stages", Short: "Show the state of every stage", Args: usage(cobra.NoArgs),
		Long: "stages shows each stage in the order of the work: messages waiting, in flight and delayed; how many of these\n" +
			"wait for their next try (retrying); those in its dead-letter queue (dlq), the age of its oldest work that no worker\n" +
			"has begun, its workers, whether it is paused, its breaker, and the alarms that ring (their runbooks are in\n" +
			"deploy/runbooks). --json prints an array.",
		Example: "  fleet stages\n  fleet stages --json | jq '.[] | select(.dlq > 0)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				stages, err := fleet.Stages(ctx)
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, stages)
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "STAGE\tWAITING\tIN FLIGHT\tDELAYED\tRETRYING\tDLQ\tOLDEST\tWORKERS\tBUSY\tBREAKER\tPAUSED\tALARMS")
				uncounted := ""
				for _, s := range stages {
					if s.Uncounted != "" {
						uncounted += fmt.Sprintf("%s: not all of its messages could be counted: %s\n", s.Name, s.Uncounted)
					}
					age := time.Duration(s.OldestAgeSeconds * float64(time.Second)).Round(time.Second)
					fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t%d\t%d/%d\t%s\t%s\t%s\n", s.Name, s.Visible, s.InFlight, s.Delayed, s.Retrying, s.DLQ,
						age, s.Workers, s.Busy, s.Slots, s.Breaker, map[bool]string{true: "yes", false: "no"}[s.Paused], alarmsOf(s))
				}
				if err := table.Flush(); err != nil {
					return err
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), uncounted)
				return err
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}

func alarmsOf(s admin.Stage) string {
	if len(s.Alarms) == 0 {
		return "-"
	}
	return strings.Join(s.Alarms, ",")
}
