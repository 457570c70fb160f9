package job

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

type renewalRow struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
	LeaseUs int64  `json:"lease_us"`
}

// Renew prolongs claims in one statement, each for its Lease from before the call. The errors are positional: nil,
// outcome.ErrSuperseded, outcome.ErrCancelled, or outcome.ErrLeaseLost for every other loss. Its own error means
// that the store is ill and that nothing is known.
func (s *Store) Renew(ctx context.Context, rs []Renewal) ([]error, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	rows := make([]renewalRow, len(rs))
	for i, r := range rs {
		rows[i] = renewalRow{r.Step, r.Token, r.Lease.Microseconds()}
	}
	var renewed map[string]bool  // by token: an owner that has lost its step may be renewed together with the one who has it
	var states map[string]string // of steps, if any was not renewed
	err := s.db.Update(ctx, "renew", func(tx *sqldb.Tx) error {
		renewed, states = map[string]bool{}, map[string]string{}
		return renew(ctx, tx, rows, renewed, states)
	})
	if err != nil {
		return nil, fmt.Errorf("renew: %w", err)
	}
	errs := make([]error, len(rs))
	for i, r := range rs {
		if !renewed[r.Token] {
			errs[i] = lost(states[r.Step])
		}
	}
	return errs, nil
}

func renew(ctx context.Context, tx *sqldb.Tx, rows []renewalRow, renewed map[string]bool, states map[string]string) error {
	err := tx.Query(ctx, q("renew"), func(scan func(...any) error) error {
		var token string
		err := scan(&token)
		renewed[token] = true
		return err
	}, sqldb.Rows(rows))
	if err != nil || len(renewed) == len(rows) {
		return err
	}
	return tx.Query(ctx, q("states"), func(scan func(...any) error) error {
		var id, state string
		err := scan(&id, &state)
		states[id] = state
		return err
	}, sqldb.Rows(rows))
}

func lost(state string) error {
	switch state {
	case stepSuperseded:
		return outcome.ErrSuperseded
	case stepCancelled:
		return outcome.ErrCancelled
	}
	return outcome.ErrLeaseLost
}

// Progress notes how far a running step is; a claim that has lost its step changes nothing. The caller bounds how
// often: every note is a write.
func (s *Store) Progress(ctx context.Context, c Claim, p Progress) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode progress: %w", err)
	}
	err = s.db.UpdateRelaxed(ctx, "progress", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("progress"), c.Step, c.Token, string(raw))
		return err
	})
	if err != nil {
		return fmt.Errorf("note progress: %w", err)
	}
	return nil
}
