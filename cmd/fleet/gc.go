package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
)

const gcHelp = `gc removes objects that nothing refers to: those of attempts that ended without publishing, recordings that were handed
in and that no job took, as after a refusal, and sheets of imports that have ended. All are kept for longer than any worker can
still be writing, and recordings that come in pieces until they expire; --older asks for more time. What cannot be removed is passed over and counted, and tried again: the server
collects every hour by itself.`

func newGC(getenv func(string) string) *cobra.Command {
	var c client
	var dry bool
	var older time.Duration
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove objects that nothing refers to", Long: gcHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet gc --dry-run\n  fleet gc --older 48h --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if older < 0 || older%time.Second != 0 {
				return usageError{errors.New("--older must be whole seconds, 0 or more")}
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				got, err := collect(ctx, fleet, older, dry)
				if err != nil {
					return err
				}
				if c.json {
					err = printJSON(cmd, got)
				} else {
					fmt.Fprint(cmd.OutOrStdout(), told(got))
				}
				if got.Failed > 0 {
					return errors.Join(err, fmt.Errorf("objects of %d attempts or uploads could not be removed: the server's log says why, and it tries again every hour", got.Failed))
				}
				return err
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	cmd.Flags().DurationVar(&older, "older", 0, "only what ended so long ago (default: since nobody can be writing any more)")
	return cmd
}

// collect asks until there is no more. A dry run changes nothing, so it would see the same again.
func collect(ctx context.Context, fleet *api.Client, older time.Duration, dry bool) (admin.Collected, error) {
	var all admin.Collected
	for {
		got, err := fleet.Collect(ctx, older, dry)
		if err != nil {
			return all, err
		}
		all.DryRun, all.More = dry, got.More
		all.Attempts += got.Attempts
		all.Uploads += got.Uploads
		all.Objects += got.Objects
		all.Bytes += got.Bytes
		all.Failed = got.Failed // the same ones, and more, every time
		if dry || !got.More {
			return all, nil
		}
	}
}

func told(c admin.Collected) string {
	verb := "removed"
	if c.DryRun {
		verb = "would remove"
		if c.More {
			verb = "would remove at least"
		}
	}
	return fmt.Sprintf("%s %d objects, %.1f MiB: of %d unpublished attempts and %d uploads that no job has\n", verb, c.Objects, float64(c.Bytes)/(1<<20), c.Attempts, c.Uploads)
}
