package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Drift is an account whose counts were not those of its jobs. No path of this program makes one: it tells of a bug, or of somebody
// who has changed the database by hand. Left alone it would keep jobs out, or let too many in, for ever.
type Drift struct {
	Tenant                    string
	InFlight, Waiting         int64 // as they were noted
	TrueInFlight, TrueWaiting int64 // as they were counted and are noted now
}

// Error says what was mended.
func (d *Drift) Error() string {
	return fmt.Sprintf("account %s had %d jobs in flight and %d waiting, noted as %d and %d: mended", d.Tenant, d.TrueInFlight, d.TrueWaiting, d.InFlight, d.Waiting)
}

// mendAccounts makes the counts of accounts those of their jobs. The errors hold a *Drift for every account that was mended.
func (s *Store) mendAccounts(ctx context.Context) error {
	tenants, err := s.strings(ctx, "drifted")
	errs := []error{err}
	for _, tenant := range tenants {
		d, err := s.mendAccount(ctx, tenant)
		if err != nil {
			errs = append(errs, fmt.Errorf("mend an account: %w", err))
		} else if d != nil {
			s.metrics.drifts.Inc()
			errs = append(errs, d)
		}
	}
	return errors.Join(errs...)
}

func (s *Store) mendAccount(ctx context.Context, tenant string) (*Drift, error) {
	var found *Drift
	err := s.db.Update(ctx, "mend_account", func(tx *sqldb.Tx) error {
		found = nil
		d := &Drift{Tenant: tenant}
		if _, err := tx.Exec(ctx, q("lock_accounts"), sqldb.Rows(idRows([]string{tenant}))); err != nil {
			return err
		}
		err := tx.One(ctx, q("recount"), []any{tenant}, &d.InFlight, &d.Waiting, &d.TrueInFlight, &d.TrueWaiting)
		if err != nil || d.InFlight == d.TrueInFlight && d.Waiting == d.TrueWaiting {
			return err
		}
		found = d
		_, err = tx.Exec(ctx, q("mend_account"), tenant, d.TrueInFlight, d.TrueWaiting)
		return err
	})
	return found, err
}
