package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/job"
)

const keysHelp = `keys makes, lists, rotates and revokes API keys. A key belongs to a tenant with an account and has scopes:

  submit   hand in work of its tenant and cancel it
  view     read the work, results and account of its tenant
  operate  see and steer the whole fleet, of all tenants; keys and accounts too

Until there is a key, everybody on the loopback interface may do everything. From the first one on, every caller needs one; a local
fleet then writes one for its own user into its state directory. Commands send the key of FLEET_KEY, of --key-file, or of that directory.`

func newKeys(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "Make, list, rotate and revoke API keys", Long: keysHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet keys create --tenant acme --scopes submit,view\n  fleet keys ls\n  fleet keys rotate ID --overlap 24h\n  fleet keys first --database postgres://fleet@db/fleet",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newKeysFirst(getenv), newKeysCreate(getenv), newKeysList(getenv), newKeysRotate(getenv), newKeysRevoke(getenv))
	return cmd
}

func newKeysCreate(getenv func(string) string) *cobra.Command {
	var b books
	var order job.KeyRequest
	var scopes string
	cmd := &cobra.Command{
		Use: "create", Short: "Make a key; its secret is shown this once", Args: usage(cobra.NoArgs),
		Example: "  fleet keys create --tenant acme --scopes submit,view\n  fleet keys create --database sqlite:.stagefleet/fleet.db --tenant local --scopes operate",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if order.Scopes, err = job.ParseScopes(scopes); err != nil {
				return usageError{err}
			}
			return b.open(func(ctx context.Context, l ledger) error {
				key, err := l.CreateKey(ctx, order)
				return b.printSecret(cmd, key, noAccount(err, order.Tenant))
			})
		},
	}
	b.flags(cmd, getenv)
	cmd.Flags().StringVar(&order.Tenant, "tenant", "", "whose key it is; the tenant must have an account")
	cmd.Flags().StringVar(&order.Name, "name", "", "what it is called in lists")
	cmd.Flags().StringVar(&scopes, "scopes", "submit,view", "what it permits: submit, view, operate")
	cmd.Flags().Int64Var(&order.PerMinute, "rate", 0, "requests a minute; 0 is the server's default")
	cmd.Flags().DurationVar(&order.Lifetime, "lifetime", 0, "after which it expires; 0: until it is revoked")
	_ = cmd.MarkFlagRequired("tenant") // the flag is there
	return cmd
}

// showSecret prints a secret alone to standard output, so that it can be kept by a redirection, and what it is to standard error.
func showSecret(cmd *cobra.Command, secret, about string) error {
	if about != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), about)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), secret)
	return err
}

// printSecret shows a new key.
func (b *books) printSecret(cmd *cobra.Command, key job.NewKey, err error) error {
	switch {
	case err != nil:
		return err
	case b.json:
		return printJSON(cmd, key)
	}
	return showSecret(cmd, key.Secret, fmt.Sprintf("key %s of %s, scopes %s; its secret is shown this once:", key.ID, key.Tenant, key.Scopes))
}

func newKeysRotate(getenv func(string) string) *cobra.Command {
	var b books
	var overlap time.Duration
	cmd := &cobra.Command{
		Use: "rotate ID", Short: "Make a key in the place of another, which lives on for an overlap", Args: usage(cobra.ExactArgs(1)),
		Long: "rotate makes a key with the tenant, the name, the scopes and the rate of another, and shows its secret this once. A key that was made\n" +
			"with a lifetime keeps it: the new one lives as long from now on. The other one lives for the overlap, and never longer than it would have.",
		Example: "  fleet keys rotate ID --overlap 24h",
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.open(func(ctx context.Context, l ledger) error {
				key, err := l.RotateKey(ctx, args[0], overlap)
				return b.printSecret(cmd, key, err)
			})
		},
	}
	b.flags(cmd, getenv)
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old key is still valid")
	return cmd
}

func newKeysRevoke(getenv func(string) string) *cobra.Command {
	var b books
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "End a key at once", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.open(func(ctx context.Context, l ledger) error {
				if err := l.RevokeKey(ctx, args[0]); err != nil || b.json {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "key %s is revoked\n", args[0])
				return nil
			})
		},
	}
	b.flags(cmd, getenv)
	return cmd
}

func newKeysList(getenv func(string) string) *cobra.Command {
	var b books
	var tenant string
	cmd := &cobra.Command{
		Use: "ls", Short: "List keys, without their secrets", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.open(func(ctx context.Context, l ledger) error {
				keys, err := l.Keys(ctx, tenant)
				if err != nil {
					return err
				}
				if b.json {
					return printJSON(cmd, keys)
				}
				return listKeys(cmd, keys)
			})
		},
	}
	b.flags(cmd, getenv)
	cmd.Flags().StringVar(&tenant, "tenant", "", "only keys of this tenant")
	return cmd
}

func listKeys(cmd *cobra.Command, keys []job.Key) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tTENANT\tSCOPES\tNAME\tSTATE\tLAST USED")
	for _, k := range keys {
		used := "never"
		if k.UsedAt != nil {
			used = k.UsedAt.Local().Format(time.DateTime)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Scopes, printable(k.Name), keyState(k, time.Now()), used)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	return nil
}

func keyState(k job.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt == nil:
		return "valid"
	case k.ExpiresAt.After(now):
		return "until " + k.ExpiresAt.Local().Format(time.DateTime)
	}
	return "expired"
}
