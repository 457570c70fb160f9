package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const submitHelp = `submit hands a recording to the fleet and prints its job. Only a regular file is taken.

The target is what the recording is called, by default the file's base name. A target has versions: without
--version the next one is made, and its result takes the place of older ones.

With --wait, progress is shown until the job has ended; --json then prints the ended job alone.`

func newSubmit(getenv func(string) string) *cobra.Command {
	var c client
	var request api.Request
	var wait bool
	cmd := &cobra.Command{
		Use: "submit FILE", Short: "Hand in a recording", Long: submitHelp, Args: usage(cobra.ExactArgs(1)),
		Example: "  fleet submit talk.mp4 --wait\n  fleet submit cut2.mp4 --target talk --version 2\n  fleet submit talk.mp4 --json | jq -r .id\n  fleet submit talk.mp4 --webhook https://example.org/hook",
		RunE: func(cmd *cobra.Command, args []string) error {
			if request.Version < 0 {
				return usageError{fmt.Errorf("version %d must be 1 or more, or 0 for the next", request.Version)}
			}
			if cmd.Flags().Changed("target") && request.Target == "" {
				return usageError{errors.New("--target is empty; leave it out for the file's base name")}
			}
			file, err := api.OpenRegular(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if request.Name, err = nameOf(args[0]); err != nil {
				return err
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				return submit(ctx, cmd, fleet, request, file, c.json, wait)
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&request.Target, "target", "", "what the recording is called (default: the file's base name)")
	cmd.Flags().Int64Var(&request.Version, "version", 0, "version of the target (default: the next)")
	cmd.Flags().StringVar(&request.Webhook, "webhook", "", "address that the job's end is reported to, signed; see: fleet webhooks")
	cmd.Flags().BoolVar(&wait, "wait", false, "show progress until the job has ended")
	return cmd
}

// nameOf is what a file is called, for a fleet that keeps names as lines of text.
func nameOf(path string) (string, error) {
	name := filepath.Base(path)
	if !job.PlainText(name) {
		return "", usageError{fmt.Errorf("the name of %q has a line break, a control character or bytes that are not UTF-8; give the file another", path)}
	}
	return name, nil
}

func submit(ctx context.Context, cmd *cobra.Command, fleet *api.Client, request api.Request, file *os.File, asJSON, wait bool) error {
	j, err := fleet.Submit(ctx, request, file)
	switch {
	case err != nil:
		return err
	case wait && asJSON:
		last, err := fleet.Watch(ctx, j.ID, discard)
		goesOn(ctx, cmd, j)
		return printEnd(cmd, last, err)
	case asJSON:
		return printJSON(cmd, j)
	}
	verdict := "is accepted"
	if j.Known {
		verdict = "was accepted before, with the same content"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "job %s: version %d of %s %s\n", j.ID, j.Version, printable(j.Target), verdict)
	if wait {
		err := follow(ctx, cmd, fleet, j.ID)
		goesOn(ctx, cmd, j)
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Watch it with: fleet watch %s\n", j.ID)
	return nil
}

// goesOn tells a person who has stopped waiting that the fleet has not.
func goesOn(ctx context.Context, cmd *cobra.Command, j job.Job) {
	if ctx.Err() != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "The job goes on. Watch it with: fleet watch %s\n", j.ID)
	}
}

// printEnd prints the ended job alone. A job whose end was not seen is not printed: it would be taken for an ended one.
func printEnd(cmd *cobra.Command, last job.Job, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(printJSON(cmd, last), withoutResult(last))
}
