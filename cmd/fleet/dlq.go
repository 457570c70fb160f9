package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const dlqHelp = `dlq is about what waits for a person: dead steps, whose copies are in their stages' dead-letter queues, and messages
there that the record does not know. A step is dead when all its attempts failed, when its workers vanished too often
while they ran it, or when the stage could not make sense of it. Its job has failed and its charge was given back.`

func newDLQ(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "dlq", Short: "See dead letters, redrive or discard them", Long: dlqHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet dlq ls --stage transcribe\n  fleet dlq show STEP\n  fleet dlq redrive STEP\n  fleet dlq discard STEP --reason 'test data'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newDLQList(getenv), newDLQShow(getenv), newDLQRedrive(getenv), newDLQDiscard(getenv))
	return cmd
}

func newDLQList(getenv func(string) string) *cobra.Command {
	var c client
	filter := job.DeadFilter{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List dead steps and unknown messages", Args: usage(cobra.NoArgs),
		Long: "ls lists dead steps, oldest first, and the messages of dead-letter queues that the record does not know.\n" +
			"--json prints an object with dead and unknown.",
		Example: "  fleet dlq ls\n  fleet dlq ls --stage transcribe --json | jq -r '.dead[].step'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := pageLimit(filter.Limit); err != nil {
				return err
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				page, err := fleet.Dead(ctx, filter)
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, page)
				}
				return listDead(cmd, page)
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&filter.Stage, "stage", "", "only those of this stage")
	cmd.Flags().IntVar(&filter.Limit, "limit", 50, "at most so many steps")
	return cmd
}

func listDead(cmd *cobra.Command, page admin.DeadPage) error {
	if len(page.Dead)+len(page.Unknown) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "Nothing is dead.")
		return nil
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	if len(page.Dead) > 0 {
		fmt.Fprintln(table, "STEP\tSTAGE\tWHY\tATTEMPTS\tCRASHES\tTARGET\tVERSION\tDIED")
	}
	for _, d := range page.Dead {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t%d\t%s\n", d.Step, d.Stage, d.Class, d.Attempts, d.Crashes, printable(d.Target), d.Version, local(d.DiedAt))
	}
	if len(page.Unknown) > 0 {
		fmt.Fprintln(table, "UNKNOWN MESSAGE\tSTAGE\tWHY\tBYTES\tSENT")
	}
	for _, l := range page.Unknown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", l.ID, l.Stage, words(job.State(l.Why)), l.Bytes, local(l.SentAt))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	if page.Cursor != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "There may be more; --limit shows them.")
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "See what to do about one with: fleet dlq show ID")
	return nil
}

func newDLQShow(getenv func(string) string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show why a step died and what to do next", Args: usage(cobra.ExactArgs(1)),
		Long: "show tells all that is known of one dead step, or of a message that the record does not know: what it was for,\n" +
			"why it died, every execution with its timings, the trace, and what to do next. It never shows what a message says.",
		Example: "  fleet dlq show STEP\n  fleet dlq show STEP --json | jq .history",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				found, err := fleet.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, found)
				}
				return showDead(cmd.OutOrStdout(), found)
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}

func showDead(out io.Writer, found admin.Inspection) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if l := found.Letter; l != nil {
		fmt.Fprintf(table, "message\t%s\nqueue\t%s\nwhy\t%s\nsent\t%s\nsize\t%d bytes\n", l.ID, l.Queue, words(job.State(l.Why)), local(l.SentAt), l.Bytes)
	}
	if d := found.Dead; d != nil {
		fmt.Fprintf(table, "step\t%s\nstage\t%s\njob\t%s\ntarget\t%s, version %d\n", d.Step, d.Stage, d.Job, printable(d.Target), d.Version)
		if d.Part != nil {
			fmt.Fprintf(table, "part\t%d\n", *d.Part)
		}
		fmt.Fprintf(table, "died\t%s\nwhy\t%s\n", local(d.DiedAt), d.Class)
		if found.Reason != nil {
			fmt.Fprintf(table, "told\t%s\n", printable(found.Reason.Sentence))
		}
		fmt.Fprintf(table, "counted\t%d attempts, %d crashes, in round %d\nqueue\t%s\n", d.Attempts, d.Crashes, d.Rounds, d.DLQ)
		if d.Trace != "" {
			fmt.Fprintf(table, "trace\t%s\n", d.Trace)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the step: %w", err)
	}
	if len(found.History) > 0 {
		table = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "\nEXECUTION\tWORKER\tOUTCOME\tREASON\tCOUNTED\tWAITED\tRAN")
		for _, a := range found.History {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%v\n", local(a.ClaimedAt), a.Worker, words(job.State(a.Outcome)), a.Reason, yes(a.Counted),
				milliseconds(a.QueueWaitMs), milliseconds(a.ExecutionMs))
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("print the executions: %w", err)
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", found.Advice)
	return err
}

func newDLQRedrive(getenv func(string) string) *cobra.Command {
	var c client
	filter := job.DeadFilter{}
	var sure bool
	cmd := &cobra.Command{
		Use: "redrive ID | --stage STAGE", Short: "Set dead steps going again", Args: usage(cobra.MaximumNArgs(1)),
		Long: "redrive sets the dead steps of a job going again, by the ID of a step or of the job: a new round of attempts, a new\n" +
			"message, no new charge. The submitter sees that the job was recovered; the copy in the dead-letter queue goes by itself.\n" +
			"What is not dead any more is left alone (exit code 4). With --stage it does so for the jobs of all dead steps of a\n" +
			"stage, at most --limit of them, after asking.",
		Example: "  fleet dlq redrive STEP\n  fleet dlq redrive --stage transcribe --limit 20 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (filter.Stage != "") {
				return usageError{errors.New("name one ID, or a stage with --stage (see: fleet dlq redrive --help)")}
			}
			if err := pageLimit(filter.Limit); err != nil {
				return err
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				if len(args) == 0 {
					return redriveStage(ctx, cmd, fleet, filter, sure, c.json)
				}
				j, err := fleet.Redrive(ctx, args[0])
				if err != nil {
					return err
				}
				if c.json {
					return printJSON(cmd, j)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "job %s goes on\n", j.ID)
				fmt.Fprintf(cmd.ErrOrStderr(), "Watch it with: fleet watch %s\n", j.ID)
				return nil
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&filter.Stage, "stage", "", "redrive the dead steps of this stage")
	cmd.Flags().IntVar(&filter.Limit, "limit", 50, "with --stage, at most so many steps")
	cmd.Flags().BoolVar(&sure, "yes", false, "with --stage, do not ask")
	return cmd
}

// redriveStage redrives each job once, however many of its steps are dead, and goes on after one that is refused.
func redriveStage(ctx context.Context, cmd *cobra.Command, fleet *api.Client, filter job.DeadFilter, sure, asJSON bool) error {
	page, err := fleet.Dead(ctx, filter)
	if err != nil {
		return err
	}
	var ids []string
	seen := map[string]bool{}
	for _, d := range page.Dead {
		if !seen[d.Job] {
			seen[d.Job], ids = true, append(ids, d.Job)
		}
	}
	if len(ids) > 0 && !sure {
		if err := confirm(cmd, fmt.Sprintf("Redrive %d jobs with %d dead steps of %s?", len(ids), len(page.Dead), filter.Stage)); err != nil {
			return err
		}
	}
	done := []job.Job{}
	var refused error
	for _, id := range ids {
		j, err := fleet.Redrive(ctx, id)
		var p *api.Problem
		switch {
		case errors.As(err, &p) && p.Status == http.StatusConflict:
			refused = err
		case err != nil:
			return fmt.Errorf("after %d of %d jobs: %w", len(done), len(ids), err)
		default:
			done = append(done, j)
		}
	}
	if asJSON {
		err = printJSON(cmd, done)
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%d of %d jobs go on\n", len(done), len(ids))
	}
	if refused != nil {
		return errors.Join(err, fmt.Errorf("%d of %d jobs were left alone, the last because: %w", len(ids)-len(done), len(ids), refused))
	}
	return err
}

// confirm asks the person at the terminal. Where there is none, the command line must say --yes.
func confirm(cmd *cobra.Command, question string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usageError{errors.New("there is nobody to ask: say --yes")}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

func newDLQDiscard(getenv func(string) string) *cobra.Command {
	var c client
	var reason string
	cmd := &cobra.Command{
		Use: "discard ID", Short: "Give up a dead step, or delete an unknown message", Args: usage(cobra.ExactArgs(1)),
		Long: "discard gives up the dead steps of a job, by the ID of a step or of the job: they wait for nobody any more, and the job\n" +
			"stays failed for good. Of a message that the record does not know, by the ID that dlq ls shows, it deletes the only copy.",
		Example: "  fleet dlq discard STEP --reason 'recorded by mistake'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				j, err := fleet.Discard(ctx, args[0], reason)
				switch {
				case err != nil:
					return err
				case c.json:
					return printJSON(cmd, map[string]string{"discarded": args[0], "job": j.ID})
				case j.ID == "":
					fmt.Fprintf(cmd.OutOrStdout(), "message %s is deleted\n", args[0])
				default:
					fmt.Fprintf(cmd.OutOrStdout(), "job %s stays %s; nothing of it waits any more\n", j.ID, words(j.State))
				}
				return nil
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	return cmd
}

// pageLimit checks a --limit.
func pageLimit(limit int) error {
	if limit < 1 || limit > api.MaxPage {
		return usageError{fmt.Errorf("limit %d must be 1 to %d", limit, api.MaxPage)}
	}
	return nil
}

func local(t time.Time) string { return t.Local().Format(time.DateTime) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func milliseconds(ms int64) time.Duration {
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond)
}
