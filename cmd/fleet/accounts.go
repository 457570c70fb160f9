package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/job"
)

const shownEntries = 20

func newAccounts(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "accounts", Short: "Open, list, limit and credit tenants' accounts", Args: usage(cobra.NoArgs),
		Long: "accounts opens, lists, limits and credits the accounts of tenants. A balance is the sum of its entries: grants,\n" +
			"charges for jobs, and refunds of jobs that failed or were refused.",
		Example: "  fleet accounts create acme --in-flight 20\n  fleet accounts grant acme 1000\n  fleet accounts show acme",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAccountsCreate(getenv), newAccountsList(getenv), newAccountsShow(getenv), newAccountsLimit(getenv), newAccountsGrant(getenv))
	return cmd
}

// limitFlags are the limits of an account; only those that are given are said.
type limitFlags struct {
	unlimited               bool
	inFlight, daily, weight int64
}

func (f *limitFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.unlimited, "unlimited", false, "the balance may go below zero")
	cmd.Flags().Int64Var(&f.inFlight, "in-flight", 0, "jobs that may be unfinished at once; 0: no limit")
	cmd.Flags().Int64Var(&f.weight, "weight", 1, "its share beside other tenants, 1 to 100")
	cmd.Flags().Int64Var(&f.daily, "daily-cap", 0, "units that may be spent per UTC day; 0: no limit")
}

func (f *limitFlags) said(cmd *cobra.Command) job.Limits {
	var l job.Limits
	if cmd.Flags().Changed("unlimited") {
		l.Unlimited = &f.unlimited
	}
	if cmd.Flags().Changed("in-flight") {
		l.MaxInFlight = &f.inFlight
	}
	if cmd.Flags().Changed("daily-cap") {
		l.DailyCap = &f.daily
	}
	if cmd.Flags().Changed("weight") {
		l.Weight = &f.weight
	}
	return l
}

func newAccountsCreate(getenv func(string) string) *cobra.Command {
	return withLimits(getenv, ledger.CreateAccount, &cobra.Command{
		Use: "create TENANT", Short: "Open an account with a balance of zero",
		Example: "  fleet accounts create acme --in-flight 20 --daily-cap 500\n  fleet accounts create acme --database postgres://fleet@db/fleet",
	})
}

func newAccountsLimit(getenv func(string) string) *cobra.Command {
	return withLimits(getenv, ledger.ChangeLimits, &cobra.Command{
		Use: "limit TENANT", Short: "Change what an account may do; what is not said stays",
		Example: "  fleet accounts limit acme --in-flight 50",
	})
}

// withLimits completes a command that does something to one account with the limits that are said, and shows it.
func withLimits(getenv func(string) string, do func(ledger, context.Context, string, job.Limits) error, cmd *cobra.Command) *cobra.Command {
	var b books
	var limits limitFlags
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return b.open(func(ctx context.Context, l ledger) error {
			return b.shown(ctx, cmd, l, args[0], do(l, ctx, args[0], limits.said(cmd)))
		})
	}
	b.flags(cmd, getenv)
	limits.add(cmd)
	return cmd
}

func newAccountsGrant(getenv func(string) string) *cobra.Command {
	var b books
	var id string
	cmd := &cobra.Command{
		Use: "grant TENANT UNITS", Short: "Add to an account's balance; a negative number takes away", Args: usage(cobra.ExactArgs(2)),
		Example: "  fleet accounts grant acme 1000\n  fleet accounts grant acme 1000 --id invoice-17\n  fleet accounts grant acme -- -50",
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("units %q must be a whole number", args[1])}
			}
			return b.open(func(ctx context.Context, l ledger) error {
				return b.shown(ctx, cmd, l, args[0], l.Grant(ctx, args[0], id, amount))
			})
		},
	}
	b.flags(cmd, getenv)
	cmd.Flags().StringVar(&id, "id", strings.ToLower(rand.Text()), "name of the grant: one name grants once (default: a new one)")
	cmd.Flags().Lookup("id").DefValue = ""
	return cmd
}

func newAccountsShow(getenv func(string) string) *cobra.Command {
	var b books
	cmd := &cobra.Command{
		Use: "show TENANT", Short: "Show an account with its newest entries", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return b.open(func(ctx context.Context, l ledger) error {
				return b.shown(ctx, cmd, l, args[0], nil)
			})
		},
	}
	b.flags(cmd, getenv)
	return cmd
}

// shownAccount is an account with its newest entries, newest first.
type shownAccount struct {
	job.Account
	Entries []job.Entry `json:"entries"`
}

// shown prints an account after what was done to it.
func (b *books) shown(ctx context.Context, cmd *cobra.Command, l ledger, tenant string, err error) error {
	if err != nil {
		return noAccount(err, tenant)
	}
	a, err := l.Account(ctx, tenant)
	if err != nil {
		return noAccount(err, tenant)
	}
	entries, err := l.Entries(ctx, tenant, shownEntries)
	if err != nil {
		return err
	}
	if b.json {
		return printJSON(cmd, shownAccount{a, entries})
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "account %s\n  balance    %d%s\n  in flight  %d of %s\n  today      %d of %s\n",
		a.Tenant, a.Balance, map[bool]string{true: " (may go below zero)"}[a.Unlimited], a.InFlight, bound(a.MaxInFlight), a.SpentToday, bound(a.DailyCap))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(table, "  %s\t%s\t%+d\t%s\n", e.At.Local().Format(time.DateTime), e.Kind, e.Amount, e.Job)
	}
	return table.Flush()
}

func bound(limit int64) string {
	if limit == 0 {
		return "any number"
	}
	return strconv.FormatInt(limit, 10)
}

func newAccountsList(getenv func(string) string) *cobra.Command {
	var b books
	cmd := &cobra.Command{
		Use: "ls", Short: "List accounts", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.open(func(ctx context.Context, l ledger) error {
				all, err := l.Accounts(ctx)
				if err != nil {
					return err
				}
				if b.json {
					return printJSON(cmd, all)
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "TENANT\tBALANCE\tIN FLIGHT\tOF\tTODAY\tOF")
				for _, a := range all {
					fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%d\t%s\n", a.Tenant, a.Balance, a.InFlight, bound(a.MaxInFlight), a.SpentToday, bound(a.DailyCap))
				}
				return table.Flush()
			})
		},
	}
	b.flags(cmd, getenv)
	return cmd
}
