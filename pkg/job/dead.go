package job

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Dead is a step that waits for a person.
type Dead struct {
	Step     string    `json:"step"`
	Job      string    `json:"job"`
	Tenant   string    `json:"tenant"`
	Target   string    `json:"target"`
	Version  int64     `json:"version"`
	Stage    string    `json:"stage"`
	Part     *int      `json:"part,omitempty"` // of a fan-out, from 0
	DLQ      string    `json:"dlq"`
	Class    string    `json:"class"` // why: exhausted, crashed_out, or the code of a quarantine
	Attempts int       `json:"attempts"`
	Crashes  int       `json:"crashes"`
	Emission int64     `json:"emission"`
	Rounds   int       `json:"rounds"`
	Trace    string    `json:"trace,omitempty"` // the W3C trace ID
	DiedAt   time.Time `json:"died_at"`

	Overtaken bool `json:"overtaken,omitempty"` // a newer version of the target has been taken in: it cannot be redriven
}

// DeadFilter selects dead steps of all tenants, in the order of their making.
type DeadFilter struct {
	Stage string // empty: of all stages
	After string // the last step of the previous page
	Limit int    // 1 to 500
}

// DeadSteps lists dead steps.
func (s *Store) DeadSteps(ctx context.Context, f DeadFilter) ([]Dead, error) {
	if f.Limit < 1 || f.Limit > maxPage {
		return nil, fmt.Errorf("list dead steps: Limit is %d, must be 1 to %d", f.Limit, maxPage)
	}
	all, err := s.dead(ctx, "dead_steps", f.After, f.Limit, f.Stage)
	if err != nil {
		return nil, fmt.Errorf("list dead steps: %w", err)
	}
	return all, nil
}

// DeadStep returns one dead step. ErrNotFound when there is no such step, ErrEnded when it is not dead.
func (s *Store) DeadStep(ctx context.Context, id string) (Dead, error) {
	if _, _, err := s.JobOf(ctx, id); err != nil {
		return Dead{}, err
	}
	found, err := s.dead(ctx, "dead_step", id)
	switch {
	case err != nil:
		return Dead{}, fmt.Errorf("read a dead step: %w", err)
	case len(found) == 0:
		return Dead{}, ErrEnded
	}
	return found[0], nil
}

func (s *Store) dead(ctx context.Context, name string, args ...any) ([]Dead, error) {
	var all []Dead
	err := s.db.View(ctx, name, func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q(name), func(scan func(...any) error) error {
			d, err := scanDead(scan)
			all = append(all, d)
			return err
		}, args...)
	})
	return all, err
}

func scanDead(scan func(...any) error) (Dead, error) {
	var d Dead
	var part, died, overtaken int64
	var trace string
	err := scan(&d.Step, &d.Job, &d.Tenant, &d.Target, &d.Version, &d.Stage, &part, &d.DLQ, &d.Class, &d.Attempts, &d.Crashes, &d.Emission,
		&d.Rounds, &trace, &died, &overtaken)
	if fields := strings.Split(trace, "-"); len(fields) > 1 {
		d.Trace = fields[1]
	}
	if part >= 0 {
		n := int(part)
		d.Part = &n
	}
	d.DiedAt, d.Overtaken = timeOf(died), overtaken == 1
	return d, err
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
	err := s.updateAndHand(ctx, "sweep", locks{level: lockSteps, steps: []string{d.Step}}, func(u *unit) {
		got = u.sweep(u.steps[d.Step], d)
	})
	if err != nil {
		return Settle{}, fmt.Errorf("sweep dead letter: %w", err)
	}
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
