package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Redrive sets the dead steps of a failed job going again: a new round of attempts, new messages, no new charge. id is the
// job's or that of one of its steps. ErrEnded when nothing of the job is dead, as after the first of two redrives, or when a
// newer version has taken over; ErrNotFound when there is no such job.
func (s *Store) Redrive(ctx context.Context, id, who string) error {
	job, _, err := s.JobOf(ctx, id)
	if err == nil {
		err = s.oneJob(ctx, "redrive", job, func(u *unit) error { return u.redrive(u.jobs[job], who) })
	}
	if err != nil {
		return fmt.Errorf("redrive: %w", err)
	}
	return nil
}

// Discard decides that nothing more comes of the dead steps of a job: they wait for nobody, and their copies in dead-letter
// queues are garbage. The job stays failed and cannot be redriven any more. id is the job's or that of one of its steps; the
// reason is for the audit. ErrEnded when nothing of the job is dead, ErrNotFound when there is no such job.
func (s *Store) Discard(ctx context.Context, id, who, reason string) error {
	job, _, err := s.JobOf(ctx, id)
	if err == nil {
		err = s.oneJob(ctx, "discard", job, func(u *unit) error { return u.discard(u.jobs[job], who, reason) })
	}
	if err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	return nil
}

func (u *unit) discard(j *jobRow, who, reason string) error {
	discarded := 0
	for _, id := range sortedKeys(u.steps) {
		if st := u.steps[id]; st.State == stepDead {
			died := st.EndedAt
			u.set(st, stepDiscarded)
			st.EndedAt = died
			discarded++
		}
	}
	if discarded == 0 {
		return ErrEnded
	}
	return audit(u.ctx, u.tx, who, "discard", j.ID, reason)
}

// JobOf returns the job that an identifier names or that a step of that identifier belongs to, and its tenant; ErrNotFound
// when there is neither.
func (s *Store) JobOf(ctx context.Context, id string) (job, tenant string, err error) {
	err = s.db.View(ctx, "job_of", func(tx *sqldb.Tx) error { return tx.One(ctx, q("job_of"), []any{id}, &job, &tenant) })
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", "", ErrNotFound
	case err != nil:
		return "", "", fmt.Errorf("look for a job: %w", err)
	}
	return job, tenant, nil
}

func (u *unit) redrive(j *jobRow, who string) error {
	revived := 0
	for _, st := range u.steps {
		if st.State == stepRefused || st.State == stepDiscarded {
			return ErrEnded // the job cannot complete
		}
	}
	for _, id := range sortedKeys(u.steps) {
		if st := u.steps[id]; st.State == stepDead && st.target.Ingested <= j.Version {
			u.revive(st)
			revived++
		}
	}
	if revived == 0 {
		return ErrEnded
	}
	return u.reopen(j, who)
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
	if _, err := u.entry(j, entryRecovered, 0, ""); err != nil {
		return err
	}
	return audit(u.ctx, u.tx, who, "redrive", j.ID, "")
}
