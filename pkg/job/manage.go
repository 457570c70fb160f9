package job

import (
	"context"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Cancel ends a job that has not ended and takes its steps away from whoever runs them. ErrEnded when it had ended,
// ErrNotFound when the tenant has no such job. What was charged is given back only if no step has ever run. The reason is for
// the audit and may be empty.
func (s *Store) Cancel(ctx context.Context, tenant, id, who, reason string) error {
	err := s.oneJob(ctx, "cancel", id, func(u *unit) error {
		j := u.jobs[id]
		if j.Tenant != tenant {
			return ErrNotFound
		}
		if j.State != jobActive && j.State != jobWaiting {
			return ErrEnded
		}
		if err := u.stopJob(j, jobCancelled, stepCancelled, jobCancelled, "Cancelled on request."); err != nil {
			return err
		}
		return audit(ctx, u.tx, who, "cancel", id, reason)
	})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// oneJob runs decide with a whole job locked, and its account, and hands its messages to the relay.
func (s *Store) oneJob(ctx context.Context, name, id string, decide func(*unit) error) error {
	var rows []Outgoing
	var u *unit
	err := s.db.Update(ctx, name, func(tx *sqldb.Tx) error {
		u = emptyUnit(ctx, tx)
		u.accounts = true
		if _, err := tx.Exec(ctx, q("lock_account_of_job"), id); err != nil {
			return err
		}
		if _, err := u.loadJobs([]string{id}); err != nil {
			return err
		}
		if u.jobs[id] == nil {
			return ErrNotFound
		}
		if err := decide(u); err != nil {
			return err
		}
		rows = u.outgoing(0)
		return u.flush()
	})
	if err == nil {
		s.metrics.count(u)
		s.hand(rows)
	}
	return err
}
