package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// ReportWorker records what a worker says of itself.
func (s *Store) ReportWorker(ctx context.Context, w WorkerStatus) error {
	raw, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode worker status: %w", err)
	}
	err = s.db.UpdateRelaxed(ctx, "report_worker", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("report_worker"), w.ID, w.Stage, string(raw))
		return err
	})
	if err != nil {
		return fmt.Errorf("report worker: %w", err)
	}
	return nil
}

// Workers returns the workers that have reported within the last age, by stage.
func (s *Store) Workers(ctx context.Context, age time.Duration) ([]WorkerStatus, error) {
	var all []WorkerStatus
	err := s.db.View(ctx, "workers", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q("workers"), func(scan func(...any) error) error {
			var raw string
			var seen int64
			if err := scan(&raw, &seen); err != nil {
				return err
			}
			var w WorkerStatus
			if err := json.Unmarshal([]byte(raw), &w); err != nil {
				return fmt.Errorf("decode worker status: %w", err)
			}
			w.SeenAt = timeOf(seen)
			all = append(all, w)
			return nil
		}, age.Microseconds())
	})
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return all, nil
}

// PauseEntry says who stopped a stage, and why.
type PauseEntry struct {
	Stage  string    `json:"stage"` // or "all"
	Reason string    `json:"reason"`
	Who    string    `json:"who"`
	At     time.Time `json:"at"`             // set by the store
	Until  time.Time `json:"until,omitzero"` // zero: until resumed
}

// Pause records that a stage, or "all", takes no new work, and who said so.
func (s *Store) Pause(ctx context.Context, p PauseEntry) error {
	return s.audited(ctx, p.Who, "pause", p.Stage, p.Reason, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("pause"), p.Stage, p.Reason, p.Who, micros(p.Until))
		return err
	})
}

// Resume lifts a pause. Resuming what is not paused changes nothing.
func (s *Store) Resume(ctx context.Context, stage, who string) error {
	return s.audited(ctx, who, "resume", stage, "", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("resume"), stage)
		return err
	})
}

// Pauses returns the pauses in force.
func (s *Store) Pauses(ctx context.Context) ([]PauseEntry, error) {
	var all []PauseEntry
	err := s.db.View(ctx, "pauses", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q("pauses"), func(scan func(...any) error) error {
			var p PauseEntry
			var at, until int64
			err := scan(&p.Stage, &p.Reason, &p.Who, &at, &until)
			p.At, p.Until = timeOf(at), timeOf(until)
			all = append(all, p)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", err)
	}
	return all, nil
}

// audited runs an operator's change together with its line in the audit.
func (s *Store) audited(ctx context.Context, who, action, object, detail string, change func(*sqldb.Tx) error) error {
	err := s.db.Update(ctx, action, func(tx *sqldb.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return audit(ctx, tx, who, action, object, detail)
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, object, err)
	}
	return nil
}

// Audit notes what an operator has done outside the record.
func (s *Store) Audit(ctx context.Context, who, action, object, detail string) error {
	return s.audited(ctx, who, action, object, detail, func(*sqldb.Tx) error { return nil })
}

func audit(ctx context.Context, tx *sqldb.Tx, who, action, object, detail string) error {
	_, err := tx.Exec(ctx, q("audit"), newToken(), who, action, object, detail)
	return err
}

// newToken is an identifier outside any unit. Its time is only for sorting.
func newToken() string { return envelope.NewID(time.Now()) }
