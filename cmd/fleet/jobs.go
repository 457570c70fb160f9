package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func newJobs(getenv func(string) string) *cobra.Command {
	var c client
	var filter job.Filter
	var state string
	cmd := &cobra.Command{
		Use: "jobs", Short: "List jobs, newest first", Args: usage(cobra.NoArgs),
		Long: "jobs lists jobs, newest first; --json prints an array of them. A --state of work under way (queued, running,\n" +
			"retrying, paused, awaiting_provider) lists all work under way.",
		Example: "  fleet jobs\n  fleet jobs --target talk.mp4\n  fleet jobs --state failed --limit 500 --json",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := pageLimit(filter.Limit); err != nil {
				return err
			}
			if filter.State, err = api.ParseState(state); err != nil {
				return usageError{fmt.Errorf("state %q must be one that a job can have, such as running, completed or failed", state)}
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				page, err := fleet.Jobs(ctx, filter)
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, page.Jobs)
				}
				return list(cmd, page)
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&filter.Target, "target", "", "only those of this target")
	cmd.Flags().StringVar(&state, "state", "", "only those in this state, such as completed or failed")
	cmd.Flags().IntVar(&filter.Limit, "limit", 50, "at most so many")
	return cmd
}

// more says how to see what a list has left out.
func more(shown int, narrow string) string {
	if shown < api.MaxPage {
		return "There are more; --limit shows them."
	}
	return "There are more than one list holds; " + narrow + "."
}

func list(cmd *cobra.Command, page api.Page) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tTARGET\tVERSION\tSTATE\tSUBMITTED")
	for _, j := range page.Jobs {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", j.ID, printable(j.Target), j.Version, words(j.State), j.CreatedAt.Local().Format(time.DateTime))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	if page.Cursor != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), more(len(page.Jobs), "--target and --state choose among them"))
	}
	return nil
}
