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
	var states map[string]string
	err := s.db.Update(ctx, "renew", func(tx *sqldb.Tx) error {
		states = map[string]string{}
		return renew(ctx, tx, rows, states)
	})
	if err != nil {
		return nil, fmt.Errorf("renew: %w", err)
	}
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = lost(states[r.Step])
	}
	return errs, nil
}

// renewed is what states holds for a step whose lease was prolonged.
const renewed = "renewed"

func renew(ctx context.Context, tx *sqldb.Tx, rows []renewalRow, states map[string]string) error {
	n := 0
	err := tx.Query(ctx, q("renew"), func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		states[id] = renewed
		n++
		return err
	}, sqldb.Rows(rows))
	if err != nil || n == len(rows) {
		return err
	}
	return tx.Query(ctx, q("states"), func(scan func(...any) error) error {
		var id, state string
		err := scan(&id, &state)
		if states[id] == "" {
			states[id] = state
		}
		return err
	}, sqldb.Rows(rows))
}

func lost(state string) error {
	switch state {
	case renewed:
		return nil
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
