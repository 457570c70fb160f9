package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// keyVar is the environment's API key.
const keyVar = "FLEET_KEY"

// ledger is where keys and accounts are kept: a fleet that is asked, or a record that is opened, for when no fleet lets
// anybody in yet.
type ledger interface {
	CreateKey(ctx context.Context, r job.KeyRequest) (job.NewKey, error)
	RotateKey(ctx context.Context, id string, overlap time.Duration) (job.NewKey, error)
	RevokeKey(ctx context.Context, id string) error
	Keys(ctx context.Context, tenant string) ([]job.Key, error)
	CreateAccount(ctx context.Context, tenant string, l job.Limits) error
	ChangeLimits(ctx context.Context, tenant string, l job.Limits) error
	Grant(ctx context.Context, tenant, id string, amount int64) error
	Account(ctx context.Context, tenant string) (job.Account, error)
	Accounts(ctx context.Context) ([]job.Account, error)
	Entries(ctx context.Context, tenant string, limit int) ([]job.Entry, error)
}

// directly is who changes a record without a fleet, in the audit.
const directly = "fleet command"

// record is a ledger that is opened directly.
type record struct{ *job.Store }

func (r record) CreateKey(ctx context.Context, k job.KeyRequest) (job.NewKey, error) {
	key, err := r.Store.CreateKey(ctx, k, directly)
	return key, noAccount(err, k.Tenant)
}

func (r record) RotateKey(ctx context.Context, id string, overlap time.Duration) (job.NewKey, error) {
	return r.Store.RotateKey(ctx, id, overlap, directly)
}

func (r record) RevokeKey(ctx context.Context, id string) error {
	return r.Store.RevokeKey(ctx, id, directly)
}

func (r record) CreateAccount(ctx context.Context, tenant string, l job.Limits) error {
	fresh, err := r.Store.CreateAccount(ctx, tenant, l, directly)
	if err == nil && !fresh {
		err = fmt.Errorf("%w: %s has an account already; fleet accounts limit changes it", errForbidden, tenant)
	}
	return err
}

func (r record) ChangeLimits(ctx context.Context, tenant string, l job.Limits) error {
	return r.Store.ChangeLimits(ctx, tenant, l, directly)
}

func (r record) Grant(ctx context.Context, tenant, id string, amount int64) error {
	if _, err := r.Account(ctx, tenant); err != nil {
		return err
	}
	_, err := r.Store.Grant(ctx, tenant, id, amount, directly)
	return err
}

func (r record) Entries(ctx context.Context, tenant string, limit int) ([]job.Entry, error) {
	entries, _, err := r.Store.Entries(ctx, tenant, "", limit)
	return entries, err
}

func noAccount(err error, tenant string) error {
	if errors.Is(err, job.ErrNotFound) {
		return fmt.Errorf("%s has no account; fleet accounts create %s opens one", tenant, tenant)
	}
	return err
}

// books is a noun that reads or changes a ledger.
type books struct {
	client
	database string
}

func (b *books) flags(cmd *cobra.Command, getenv func(string) string) {
	b.client.flags(cmd, getenv)
	cmd.Flags().StringVar(&b.database, "database", "", "this record directly instead of a fleet's, sqlite:PATH or postgres://..., as for the first key")
	aliasDatabase(cmd)
}

// aliasDatabase lets --db stand for --database.
func aliasDatabase(cmd *cobra.Command) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "db" {
			name = "database"
		}
		return pflag.NormalizedName(name)
	})
}

// open runs a call on the ledger that the flags name.
func (b *books) open(call func(ctx context.Context, l ledger) error) error {
	if b.database == "" {
		return b.ask(func(ctx context.Context, fleet *api.Client) error { return call(ctx, fleet) })
	}
	ctx := context.Background()
	return withRecord(ctx, b.database, func(store *job.Store) error { return call(ctx, record{store}) })
}

// withRecord opens a record for a call.
func withRecord(ctx context.Context, database string, call func(*job.Store) error) error {
	store, err := job.Open(ctx, database, job.Options{})
	switch {
	case errors.Is(err, job.ErrSchema):
		return fmt.Errorf("open the record: %w; fleet migrate --database does that", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open the record: %w; check the path, or make a new record with fleet migrate --database", err)
	case err != nil:
		return fmt.Errorf("open the record: %w", err)
	}
	return errors.Join(call(store), store.Close())
}

// isLocal reports whether an address, host:port or a URL, is of this machine alone.
func isLocal(addr string) bool {
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		return api.IsLoopback(u.Hostname())
	}
	host, _, err := net.SplitHostPort(addr)
	return err == nil && api.IsLoopback(host)
}

// secretOf is the API key that commands send: of the environment, of a file, or the one that a local fleet in the
// current folder has written for its user.
func secretOf(getenv func(string) string, file, addr string) (string, error) {
	if key := getenv(keyVar); key != "" && file == "" {
		return key, nil
	}
	given := file != ""
	if !given {
		if !isLocal(addr) {
			return "", nil
		}
		file = filepath.Join(defaultState, fleet.KeyFile)
	}
	text, err := os.ReadFile(file)
	if !given && errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
