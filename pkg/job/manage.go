package job

import (
	"context"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Cancel ends a job that has not ended and takes its steps away from whoever runs them. ErrEnded when it had ended,
// ErrNotFound when the tenant has no such job. What was charged is given back only if no step has ever run.
func (s *Store) Cancel(ctx context.Context, tenant, id, who string) error {
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
		return audit(ctx, u.tx, who, "cancel", id, "")
	})
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// Redrive sets the dead steps of a failed job going again: a new round of attempts, a new message, no new charge. ErrEnded
// when nothing of it is dead, as after the first of two redrives, or when a newer version has taken over.
func (s *Store) Redrive(ctx context.Context, id, who string) error {
	err := s.oneJob(ctx, "redrive", id, func(u *unit) error {
		revived := 0
		for _, key := range sortedKeys(u.steps) {
			if st := u.steps[key]; st.State == stepDead && st.target.Ingested <= st.job.Version {
				u.revive(st)
				revived++
			}
		}
		if revived == 0 {
			return ErrEnded
		}
		return u.reopen(u.jobs[id], who)
	})
	if err != nil {
		return fmt.Errorf("redrive: %w", err)
	}
	return nil
}

func (u *unit) revive(s *stepRow) {
	u.set(s, stepQueued)
	s.Attempts, s.Crashes, s.NotBefore, s.Code, s.Sentence, s.EndedAt = 0, 0, 0, "", "", 0
	s.Rounds++
	u.emit(s)
}

// reopen makes a failed job active again. The submitter sees how often that has happened.
func (u *unit) reopen(j *jobRow, who string) error {
	j.State, j.Code, j.Sentence, j.EndedAt, j.dirty = jobActive, "", "", 0, true
	j.Recovered++
	if _, err := u.tx.Exec(u.ctx, q("job_reopened"), j.Tenant); err != nil {
		return fmt.Errorf("book the reopened job: %w", err)
	}
	kind := fmt.Sprintf("%s/%d", entryRecovered, j.Recovered)
	if _, err := u.entry(j, kind, 0, ""); err != nil {
		return err
	}
	return audit(u.ctx, u.tx, who, "redrive", j.ID, "")
}

// oneJob runs decide with a whole job locked, and its account, and hands its messages to the relay.
func (s *Store) oneJob(ctx context.Context, name, id string, decide func(*unit) error) error {
	var rows []Outgoing
	err := s.db.Update(ctx, name, func(tx *sqldb.Tx) error {
		u := emptyUnit(ctx, tx)
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
		s.hand(rows)
	}
	return err
}
