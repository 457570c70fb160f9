package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

var errLimits = &Invalid{"An account's tenant must be 1 to 64 of a-z, A-Z, 0-9, dot, dash and underscore; its limits 0, for none, or more; its weight 1 to 100."}

// Limits changes what a tenant may do; what is nil stays as it is.
type Limits struct {
	Unlimited   *bool  `json:"unlimited,omitempty"`     // the balance may go below zero
	MaxInFlight *int64 `json:"max_in_flight,omitempty"` // zero: no limit
	DailyCap    *int64 `json:"daily_cap,omitempty"`     // spent per UTC day; zero: no limit
	Weight      *int64 `json:"weight,omitempty"`        // its share beside other tenants, 1 to MaxWeight
}

func (l Limits) validate() error {
	if l.MaxInFlight != nil && *l.MaxInFlight < 0 || l.DailyCap != nil && *l.DailyCap < 0 {
		return errLimits
	}
	if l.Weight != nil && (*l.Weight < 1 || *l.Weight > MaxWeight) {
		return errLimits
	}
	return nil
}

// args are the limits as the statements take them; absent and weight stand for what is not said.
func (l Limits) args(tenant string, absent, weight int64) []any {
	unlimited, inFlight, daily := absent, absent, absent
	if l.Unlimited != nil {
		unlimited = flag(*l.Unlimited)
	}
	if l.MaxInFlight != nil {
		inFlight = *l.MaxInFlight
	}
	if l.DailyCap != nil {
		daily = *l.DailyCap
	}
	if l.Weight != nil {
		weight = *l.Weight
	}
	return []any{tenant, unlimited, inFlight, daily, weight}
}

// CreateAccount opens a tenant's account with a balance of zero. false: there is one already, and nothing is changed.
func (s *Store) CreateAccount(ctx context.Context, tenant string, l Limits, who string) (bool, error) {
	if !envelope.ValidID(tenant) {
		return false, errTenant
	}
	if err := l.validate(); err != nil {
		return false, err
	}
	fresh := false
	err := s.audited(ctx, who, "create_account", tenant, "", func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("create_account"), l.args(tenant, 0, 1)...)
		fresh = n == 1
		return err
	})
	return fresh, err
}

// ChangeLimits says what a tenant may do from now on, or ErrNotFound without such an account.
func (s *Store) ChangeLimits(ctx context.Context, tenant string, l Limits, who string) error {
	if err := l.validate(); err != nil {
		return err
	}
	return s.audited(ctx, who, "limit", tenant, "", func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("change_limits"), l.args(tenant, -1, -1)...)
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
}

// Accounts lists all accounts by tenant.
func (s *Store) Accounts(ctx context.Context) ([]Account, error) {
	var all []Account
	err := s.db.View(ctx, "accounts", func(tx *sqldb.Tx) error {
		all = []Account{}
		return tx.Query(ctx, q("accounts"), func(scan func(...any) error) error {
			var a Account
			var unlimited, day, now int64
			err := scan(&a.Tenant, &a.Balance, &unlimited, &a.InFlight, &a.Waiting, &a.MaxInFlight, &a.DailyCap, &day, &a.SpentToday, &a.Weight, &now)
			a.Unlimited = unlimited == 1
			if day != today(now) {
				a.SpentToday = 0
			}
			all = append(all, a)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return all, nil
}

// Entry is one line of an account; a balance is the sum of its entries.
type Entry struct {
	ID     string    `json:"id"`
	Job    string    `json:"job,omitempty"` // none for grants
	Kind   string    `json:"kind"`          // grant, charge, refund or recovered
	Amount int64     `json:"amount"`
	Note   string    `json:"note,omitempty"`
	At     time.Time `json:"at"`
}

// Entries lists a tenant's entries, newest first, and the cursor of the next page, empty after the last.
func (s *Store) Entries(ctx context.Context, tenant, cursor string, limit int) ([]Entry, string, error) {
	if limit < 1 || limit > maxPage {
		return nil, "", &Invalid{fmt.Sprintf("The limit must be a whole number from 1 to %d.", maxPage)}
	}
	if cursor == "" {
		cursor = lastCursor
	}
	var page []Entry
	err := s.db.View(ctx, "entries", func(tx *sqldb.Tx) error {
		page = []Entry{}
		return tx.Query(ctx, q("entries"), func(scan func(...any) error) error {
			var e Entry
			var at int64
			err := scan(&e.ID, &e.Job, &e.Kind, &e.Amount, &e.Note, &at)
			e.At = timeOf(at)
			page = append(page, e)
			return err
		}, tenant, cursor, limit+1)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list entries: %w", err)
	}
	if len(page) <= limit {
		return page, "", nil
	}
	return page[:limit], page[limit-1].ID, nil
}
