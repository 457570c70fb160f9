package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
)

const pauseHelp = `pause stops a stage, or all of them, from taking new work: within half a minute nothing is received, and nothing is lost or
counted as a try. Running work goes on. Without a stage it lists the pauses in force.

A pause ends by fleet resume, or by itself at the time of --until: a duration such as 2h, or a moment such as
2026-01-31T08:00:00Z.`

func newPause(getenv func(string) string) *cobra.Command {
	var c client
	var order api.PauseOrder
	var until string
	cmd := &cobra.Command{
		Use: "pause [STAGE | all]", Short: "Stop a stage from taking new work, or list what is paused", Long: pauseHelp, Args: usage(cobra.MaximumNArgs(1)),
		Example: "  fleet pause transcribe --reason 'provider is down' --until 2h\n  fleet pause all --reason 'moving the database'\n  fleet pause",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				if order.Reason != "" || until != "" {
					return usageError{errors.New("name the stage to pause, or all")}
				}
				return c.ask(func(ctx context.Context, fleet *api.Client) error { return listPauses(ctx, cmd, fleet, c.json) })
			}
			order.Stage = args[0]
			if order.Reason == "" {
				return usageError{errors.New("say why with --reason, for those who find the stage paused")}
			}
			if order.Until, err = parseUntil(until, time.Now()); err != nil {
				return usageError{err}
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				p, err := fleet.Pause(ctx, order)
				if err != nil {
					return err
				}
				return tellPause(cmd, p, c.json)
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&order.Reason, "reason", "", "why; required")
	cmd.Flags().StringVar(&until, "until", "", "when it ends by itself: 2h, or a moment in RFC 3339 (default: when resumed)")
	return cmd
}

// parseUntil reads a duration from now, or a moment; empty is never.
func parseUntil(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if d, bad := time.ParseDuration(text); bad == nil {
		at, err = now.Add(d), nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("until %q must be a duration such as 2h or a moment such as 2026-01-31T08:00:00Z", text)
	}
	if !at.After(now) {
		return time.Time{}, fmt.Errorf("until %q must be in the future", text)
	}
	return at, nil
}

func tellPause(cmd *cobra.Command, p admin.Pause, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, p)
	}
	if p.Until.IsZero() {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is paused until it is resumed\n", p.Stage)
		fmt.Fprintf(cmd.ErrOrStderr(), "Resume it before %s, when the pause nears the retention of the queue: fleet resume %s\n", local(p.ResumeBy), p.Stage)
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is paused until %s\n", p.Stage, local(p.Until))
	}
	if p.Warning != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), p.Warning)
	}
	return nil
}

func listPauses(ctx context.Context, cmd *cobra.Command, fleet *api.Client, asJSON bool) error {
	all, err := fleet.Pauses(ctx)
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(cmd, all)
	case len(all) == 0:
		fmt.Fprintln(cmd.OutOrStdout(), "Nothing is paused.")
		return nil
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tSINCE\tUNTIL\tBY\tWHY")
	for _, p := range all {
		until := "resumed"
		if !p.Until.IsZero() {
			until = local(p.Until)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Stage, local(p.At), until, printable(p.Who), printable(p.Reason))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the pauses: %w", err)
	}
	for _, p := range all {
		if p.Warning != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", p.Stage, p.Warning)
		}
	}
	return nil
}

func newResume(getenv func(string) string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: "resume STAGE | all", Short: "Let a paused stage take work again", Args: usage(cobra.ExactArgs(1)),
		Long: "resume lifts the pause of a stage, or with all the pause of all; each pause is lifted by the name it was made with.\n" +
			"Workers take work again within half a minute.",
		Example: "  fleet resume transcribe\n  fleet resume all",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				got, err := fleet.Resume(ctx, args[0])
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, got)
				}
				verb := "is resumed"
				if !got.Was {
					verb = "was not paused"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", got.Stage, verb)
				for _, p := range got.Still {
					fmt.Fprintf(cmd.ErrOrStderr(), "Still in force is the pause of %s by %s: %s\n", p.Stage, printable(p.Who), printable(p.Reason))
				}
				return nil
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}
