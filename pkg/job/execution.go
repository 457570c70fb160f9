package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Execution is what one successful attempt took and used.
type Execution struct {
	Duration time.Duration // of the handler, by the worker's clock
	Usage    Usage
}

// Executions returns the latest successful attempts of a stage over all tenants, newest first, at most limit. It reads
// backwards through all attempts until it has them: for a person, not for a loop.
func (s *Store) Executions(ctx context.Context, stage string, limit int) ([]Execution, error) {
	var all []Execution
	err := s.db.View(ctx, "executions", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q("executions"), func(scan func(...any) error) error {
			var e Execution
			var started, ended int64
			err := scan(&started, &ended, &e.Usage.Requests, &e.Usage.InputTokens, &e.Usage.OutputTokens)
			e.Duration = time.Duration(ended-started) * time.Microsecond
			all = append(all, e)
			return err
		}, stage, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read executions: %w", err)
	}
	return all, nil
}
