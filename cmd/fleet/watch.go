package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func newWatch(getenv func(string) string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: "watch JOB", Short: "Show a job's progress until it has ended", Args: usage(cobra.ExactArgs(1)),
		Long: "watch shows a job's progress until it has ended: redrawn on a terminal, a line per change otherwise, and with\n" +
			"--json the whole job, one JSON document a line, after every change. It goes on over a restart of the fleet.",
		Example: "  fleet watch JOB\n  fleet watch JOB --json | jq -r .state",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				if !c.json {
					return follow(ctx, cmd, fleet, args[0])
				}
				var broken error
				fleet.OnLink(func(up bool) { fmt.Fprintln(cmd.ErrOrStderr(), linkText(up)) })
				last, err := fleet.Watch(ctx, args[0], func(j job.Job) { broken = errors.Join(broken, printJSON(cmd, j)) })
				if err = errors.Join(err, broken); err != nil {
					return err
				}
				return withoutResult(last)
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}

func discard(job.Job) {}

func linkText(up bool) string {
	if up {
		return "The fleet answers again."
	}
	return fmt.Sprintf("The fleet does not answer; trying again for up to %v.", api.Patience)
}

// follow shows a job's progress and, at its end, what came of it.
func follow(ctx context.Context, cmd *cobra.Command, fleet *api.Client, id string) error {
	show := newDisplay(cmd.OutOrStdout())
	watching, done := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	ticking.Go(func() { show.tick(watching) })
	fleet.OnLink(func(up bool) { show.note(cmd.ErrOrStderr(), linkText(up)) })
	last, err := fleet.Watch(ctx, id, show.job)
	done()
	ticking.Wait()
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), summary(last))
	return withoutResult(last)
}
