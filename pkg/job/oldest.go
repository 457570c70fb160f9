package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Oldest returns, by stage, how long the oldest step that is due has waited for a worker. Stages without one are absent.
func (s *Store) Oldest(ctx context.Context) (map[string]time.Duration, error) {
	ages, err := s.ages(ctx, "oldest")
	if err != nil {
		return nil, fmt.Errorf("find the oldest steps: %w", err)
	}
	return ages, nil
}

// OldestDead returns, by stage, how long the step that died first of those that wait for a person has waited. Stages
// without one are absent.
func (s *Store) OldestDead(ctx context.Context) (map[string]time.Duration, error) {
	ages, err := s.ages(ctx, "oldest_dead")
	if err != nil {
		return nil, fmt.Errorf("find the oldest dead steps: %w", err)
	}
	return ages, nil
}

func (s *Store) ages(ctx context.Context, name string) (map[string]time.Duration, error) {
	var ages map[string]time.Duration
	err := s.db.View(ctx, name, func(tx *sqldb.Tx) error {
		ages = map[string]time.Duration{}
		return tx.Query(ctx, q(name), func(scan func(...any) error) error {
			var stage string
			var age int64
			err := scan(&stage, &age)
			ages[stage] = time.Duration(max(0, age)) * time.Microsecond
			return err
		})
	})
	return ages, err
}

// Retrying returns, by stage, how many steps wait for the time of their next try. Their messages are hidden in the queue
// meanwhile, where they count as in flight or delayed. Stages without one are absent.
func (s *Store) Retrying(ctx context.Context) (map[string]int64, error) {
	var counts map[string]int64
	err := s.db.View(ctx, "retrying", func(tx *sqldb.Tx) error {
		counts = map[string]int64{}
		return tx.Query(ctx, q("retrying"), func(scan func(...any) error) error {
			var stage string
			var n int64
			err := scan(&stage, &n)
			counts[stage] = n
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count the steps that wait for their next try: %w", err)
	}
	return counts, nil
}

// openStates are the states of jobs that have not ended, by their rank in open_jobs.
var openStates = []State{Waiting, Running, Retrying, Awaiting, Paused, Queued}

// OpenJobs counts the jobs of all tenants that have not ended by the state that a person sees. Every such state is there.
func (s *Store) OpenJobs(ctx context.Context) (map[State]int64, error) {
	var counts map[State]int64
	err := s.db.View(ctx, "open_jobs", func(tx *sqldb.Tx) error {
		counts = map[State]int64{}
		for _, state := range openStates {
			counts[state] = 0
		}
		return tx.Query(ctx, q("open_jobs"), func(scan func(...any) error) error {
			var rank int
			var n int64
			err := scan(&rank, &n)
			counts[openStates[rank]] = n
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count the open jobs: %w", err)
	}
	return counts, nil
}
