package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Dead is a step that waits for a person.
type Dead struct {
	Step     string    `json:"step"`
	Job      string    `json:"job"`
	Tenant   string    `json:"tenant"`
	Stage    string    `json:"stage"`
	DLQ      string    `json:"dlq"`
	Class    string    `json:"class"` // why: exhausted, crashed_out, or the code of a quarantine
	Attempts int       `json:"attempts"`
	Crashes  int       `json:"crashes"`
	Emission int64     `json:"emission"`
	Rounds   int       `json:"rounds"`
	Trace    string    `json:"trace,omitempty"`
	DiedAt   time.Time `json:"died_at"`
}

// DeadSteps lists the dead steps of all tenants in the order of their making, from after a step on; limit 1 to 500.
func (s *Store) DeadSteps(ctx context.Context, after string, limit int) ([]Dead, error) {
	if limit < 1 || limit > maxPage {
		return nil, fmt.Errorf("list dead steps: limit is %d, must be 1 to %d", limit, maxPage)
	}
	var all []Dead
	err := s.db.View(ctx, "dead_steps", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q("dead_steps"), func(scan func(...any) error) error {
			var d Dead
			var died int64
			err := scan(&d.Step, &d.Job, &d.Tenant, &d.Stage, &d.DLQ, &d.Class, &d.Attempts, &d.Crashes, &d.Emission, &d.Rounds, &d.Trace, &died)
			d.DiedAt = timeOf(died)
			all = append(all, d)
			return err
		}, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("list dead steps: %w", err)
	}
	return all, nil
}

// Redrive sets the dead steps of a failed job going again: a new round of attempts, new messages, no new charge. id is the
// job's or that of one of its steps. ErrEnded when nothing of the job is dead, as after the first of two redrives, or when a
// newer version has taken over; ErrNotFound when there is no such job.
func (s *Store) Redrive(ctx context.Context, id, who string) error {
	job, err := s.jobOf(ctx, id)
	if err == nil {
		err = s.oneJob(ctx, "redrive", job, func(u *unit) error { return u.redrive(u.jobs[job], who) })
	}
	if err != nil {
		return fmt.Errorf("redrive: %w", err)
	}
	return nil
}

func (s *Store) jobOf(ctx context.Context, id string) (string, error) {
	jobs, err := s.strings(ctx, "job_of", id)
	switch {
	case err != nil:
		return "", err
	case len(jobs) == 0:
		return "", ErrNotFound
	}
	return jobs[0], nil
}

func (u *unit) redrive(j *jobRow, who string) error {
	revived := 0
	for _, st := range u.steps {
		if st.State == stepRefused {
			return ErrEnded // the job cannot complete: its input was refused
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
	if _, err := u.entry(j, fmt.Sprintf("%s/%d", entryRecovered, j.Recovered), 0, ""); err != nil {
		return err
	}
	return audit(u.ctx, u.tx, who, "redrive", j.ID, "")
}

// DeadLetter names a message found in a dead-letter queue.
type DeadLetter struct {
	Step, Tenant string
	Emission     int64
	MaxCrashes   int // zero means DefaultMaxCrashes
}

// Sweep says what to do with a dead-lettered message, Delete or Leave, after the record has done what the message stood
// for. Queues dead-letter by counting receives, which says little about the work: a message of an ended or
// living step is garbage, a step without an owner gets a new message or dies by the record's own counts. The
// copy of a dead step stays for a person, and so does what the record does not know.
func (s *Store) Sweep(ctx context.Context, d DeadLetter) (Settle, error) {
	if d.MaxCrashes == 0 {
		d.MaxCrashes = DefaultMaxCrashes
	}
	var got Settle
	var rows []Outgoing
	err := s.update(ctx, "sweep", locks{level: lockSteps, steps: []string{d.Step}}, func(u *unit) error {
		got = u.sweep(u.steps[d.Step], d)
		rows = u.outgoing(0)
		return nil
	})
	if err != nil {
		return Settle{}, fmt.Errorf("sweep dead letter: %w", err)
	}
	s.hand(rows)
	return got, nil
}

func (u *unit) sweep(s *stepRow, d DeadLetter) Settle {
	switch {
	case s == nil:
		return Settle{Do: Leave, Reason: ReasonUnknownStep}
	case s.Tenant != d.Tenant:
		return Settle{Do: Leave, Reason: ReasonWrongTenant}
	case d.Emission > s.Emission:
		return Settle{Do: Leave, Reason: ReasonFutureMessage}
	case d.Emission < s.Emission:
		return Settle{Do: Delete, Reason: ReasonOlderEmission}
	case s.State == stepDead:
		return Settle{Do: Leave, Reason: stepDead}
	case s.ended():
		return Settle{Do: Delete, Reason: s.State}
	case s.live(u.now):
		return Settle{Do: Delete, Reason: ReasonHeld}
	case s.State == stepRunning && !u.crash(s, d.MaxCrashes):
		return Settle{Do: Delete, Reason: reasonCrashes}
	case s.State == stepQueued:
		u.emit(s)
	}
	return Settle{Do: Delete, Reason: ReasonNotWanted}
}
