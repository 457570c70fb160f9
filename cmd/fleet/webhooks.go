package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const webhooksHelp = `webhooks shows how far the reports of jobs' ends have come, and the secret that signs them. A report goes to the address that a
submission names (fleet submit --webhook URL, fleet import --webhook URL), as the Standard Webhooks specification has it:
headers webhook-id, webhook-timestamp and webhook-signature. A receiver checks the signature with the secret, and knows by
webhook-id what is sent again.

  pending       the receiver has not been reached yet
  sent          it was reached and did not acknowledge; it is sent again, ten times in three days
  acknowledged  the receiver answered that it has it
  given_up      too many failures, or the receiver wants no more`

func newWebhooks(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{Use: "webhooks", Short: "List the reports of a job's end; show or rotate the secret that signs them", Long: webhooksHelp,
		Args: usage(cobra.NoArgs), Example: "  fleet webhooks ls JOB\n  fleet webhooks secret\n  fleet webhooks rotate",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newWebhooksList(getenv),
		newWebhooksSecret(getenv, "secret", "Show the secret that signs your webhooks, made when it is first asked for", (*api.Client).WebhookSecret),
		newWebhooksSecret(getenv, "rotate", "Replace the secret; for a day both sign", (*api.Client).RotateWebhookSecret))
	return cmd
}

func newWebhooksList(getenv func(string) string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: "ls JOB", Short: "List the reports of a job's end, oldest first", Args: usage(cobra.ExactArgs(1)), Example: "  fleet webhooks ls JOB",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				hooks, err := fleet.Webhooks(ctx, args[0])
				switch {
				case err != nil:
					return err
				case c.json:
					return printJSON(cmd, hooks)
				case len(hooks) == 0:
					fmt.Fprintf(cmd.ErrOrStderr(), "No report of job %s: it has not ended, or nobody asked for one.\n", args[0])
					return nil
				}
				return listHooks(cmd, hooks)
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}

func listHooks(cmd *cobra.Command, hooks []job.Hook) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WEBHOOK\tSTATE\tFAILURES\tMADE\tNEXT TRY")
	for _, h := range hooks {
		next := "-"
		if h.NextAt != nil {
			next = h.NextAt.Local().Format(time.DateTime)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", h.ID, strings.ReplaceAll(string(h.State), "_", " "), h.Failures, h.CreatedAt.Local().Format(time.DateTime), next)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	return nil
}

func newWebhooksSecret(getenv func(string) string, use, short string, get func(*api.Client, context.Context) (string, error)) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use: use, Short: short, Args: usage(cobra.NoArgs), Example: "  fleet webhooks " + use,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				secret, err := get(fleet, ctx)
				switch {
				case err != nil:
					return err
				case c.json:
					return printJSON(cmd, map[string]string{"secret": secret})
				}
				return showSecret(cmd, secret, "")
			})
		},
	}
	c.flags(cmd, getenv)
	return cmd
}
