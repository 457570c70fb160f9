package job

import (
	"context"
	"fmt"
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

// oneJob runs a decision about a whole job, which is locked, and its account.
func (s *Store) oneJob(ctx context.Context, name, id string, do func(*unit) error) error {
	return s.decide(ctx, name, func(u *unit) error {
		u.accounts = true
		if _, err := u.tx.Exec(ctx, q("lock_account_of_job"), id); err != nil {
			return fmt.Errorf("lock the account: %w", err)
		}
		if _, err := u.loadJobs([]string{id}); err != nil {
			return err
		}
		if u.jobs[id] == nil {
			return ErrNotFound
		}
		return do(u)
	})
}
