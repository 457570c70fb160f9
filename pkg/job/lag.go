package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// OutboxLag returns by how much the oldest message that the record owes a queue is late; zero if none is. It looks at the
// thousand that are tried next: those that fail come back among them.
func (s *Store) OutboxLag(ctx context.Context) (time.Duration, error) {
	var lag int64
	err := s.db.View(ctx, "outbox_lag", func(tx *sqldb.Tx) error {
		return tx.One(ctx, q("outbox_lag"), nil, &lag)
	})
	if err != nil {
		return 0, fmt.Errorf("measure the outbox: %w", err)
	}
	return time.Duration(max(0, lag)) * time.Microsecond, nil
}
