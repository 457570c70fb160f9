package job

import (
	"context"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

const (
	leaderLease = 15 * time.Second
	leaderRenew = 5 * time.Second // also how often the others try
)

// leadership is this process's view of the one lease row for which servers compete.
type leadership struct {
	mu    sync.Mutex
	next  time.Time // when to ask again
	until time.Time // leading until then
}

// leads reports whether this process sweeps and reconciles, asking the database every few seconds. Two may believe it
// for a moment after a freeze; every sweep is safe to do twice.
func (s *Store) leads(ctx context.Context) bool {
	s.leader.mu.Lock()
	defer s.leader.mu.Unlock()
	now := time.Now()
	if now.Before(s.leader.next) {
		return now.Before(s.leader.until)
	}
	s.leader.next = now.Add(leaderRenew)
	n := int64(0)
	err := s.db.UpdateRelaxed(ctx, "lead", func(tx *sqldb.Tx) error {
		var err error
		n, err = tx.Exec(ctx, q("lead"), s.me, leaderLease.Microseconds())
		return err
	})
	s.tell(ctx, err)
	switch {
	case err != nil: // nothing is known: what was leased stands
	case n == 1:
		s.leader.until = now.Add(leaderLease)
	default: // another process leads, whatever this one's clock says
		s.leader.until = time.Time{}
	}
	return now.Before(s.leader.until)
}

// Leads reports whether this process has, among all servers of the record, the work that only one should do: at most one
// every few seconds is told true, except for a moment after a freeze.
func (s *Store) Leads(ctx context.Context) bool { return s.leads(ctx) }

// resign lets another process lead at once.
func (s *Store) resign(ctx context.Context) error {
	s.leader.mu.Lock()
	defer s.leader.mu.Unlock()
	if s.leader.until.IsZero() {
		return nil
	}
	s.leader.until, s.leader.next = time.Time{}, time.Time{}
	return s.db.UpdateRelaxed(ctx, "resign", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("resign"), s.me)
		return err
	})
}
