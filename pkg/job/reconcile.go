package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Defaults of Options.
const (
	DefaultReconcileEvery = 10 * time.Second
	DefaultQueueRetention = 4 * 24 * time.Hour
)

const (
	emptySamples = 3   // so often a queue must have been seen empty, one tick apart, before its steps are repaired
	repairsATick = 100 // so many steps get a new message per queue and tick
	reissueBatch = 200
	keepKeys     = 7 * 24 * time.Hour
	keepWorkers  = time.Hour
	keepEvents   = 90 * 24 * time.Hour
)

// Reconcile repairs, until ctx ends, what no message stands for any more, lets jobs and parts that wait enter their queues when
// there is room, and wakes awaits whose deadline has passed. Only the holder of the lease row does it; after a freeze two may for a moment, which is
// safe. A step gets a new
// message only when its queue was seen empty several times in a row, or when its message nears the queue's
// retention. It returns nil when ctx ends; faults are waited out.
func (s *Store) Reconcile(ctx context.Context, c Counter) error {
	empty := map[string]int{}
	room, tick, hour := time.NewTicker(enterEvery), time.NewTicker(s.opt.ReconcileEvery), time.NewTicker(time.Hour)
	defer room.Stop()
	defer tick.Stop()
	defer hour.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.resign(context.WithoutCancel(ctx))
		case <-room.C:
			if s.leads(ctx) {
				s.reconciled(ctx, nil, s.enter(ctx))
			}
		case <-tick.C:
			if !s.leads(ctx) {
				clear(empty) // what was seen before another server led
				continue
			}
			uncounted, fault := s.reconcileOnce(ctx, c, empty)
			s.reconciled(ctx, uncounted, fault)
		case <-hour.C:
			if s.leads(ctx) {
				s.reconciled(ctx, nil, errors.Join(s.forget(ctx), s.mendAccounts(ctx)))
			}
		}
	}
}

func (s *Store) reconciled(ctx context.Context, uncounted, fault error) {
	s.metrics.reconciled(errors.Join(uncounted, fault))
	s.tell(ctx, fault)
}

// reconcileOnce tells queues that could not be counted from faults of the database.
func (s *Store) reconcileOnce(ctx context.Context, c Counter, empty map[string]int) (uncounted, fault error) {
	faults := []error{s.expireAwaits(ctx)}
	queues, err := s.strings(ctx, "open_queues")
	faults = append(faults, err)
	maps.DeleteFunc(empty, func(queue string, _ int) bool { return !slices.Contains(queues, queue) }) // not looked at: not seen empty
	for _, queue := range queues {
		visible, inFlight, delayed, err := c.Count(ctx, queue)
		if err != nil {
			uncounted = errors.Join(uncounted, fmt.Errorf("count messages: %w", err))
			empty[queue] = 0
			continue
		}
		empty[queue]++
		if visible+inFlight+delayed > 0 {
			empty[queue] = 0
		}
		faults = append(faults, s.repair(ctx, queue, empty[queue] >= emptySamples))
	}
	return uncounted, errors.Join(faults...)
}

// repair gives orphans of a queue new messages: all that were emitted before the samples if the queue is empty,
// otherwise only those whose message may soon be thrown away.
func (s *Store) repair(ctx context.Context, queue string, isEmpty bool) error {
	age := s.opt.QueueRetention - s.opt.QueueRetention/8
	if isEmpty {
		age = emptySamples * s.opt.ReconcileEvery
	}
	ids, err := s.strings(ctx, "orphans", queue, age.Microseconds(), repairsATick)
	if err != nil || len(ids) == 0 {
		return err
	}
	n, err := s.reissue(ctx, "repair", ids, restsSince(age))
	s.metrics.repairs.Add(float64(n))
	return err
}

// ReissueAll gives every step that a message must stand for, and that no live owner holds, a new message. It is for a start
// with queues that have lost theirs. Steps with a live owner are the reconciler's if that owner dies.
func (s *Store) ReissueAll(ctx context.Context) (int, error) {
	total, last := 0, ""
	for {
		ids, err := s.strings(ctx, "unowned", last, reissueBatch)
		if err != nil {
			return total, fmt.Errorf("reissue: %w", err)
		}
		if len(ids) == 0 {
			return total, nil
		}
		n, err := s.reissue(ctx, "reissue", ids, func(*stepRow, int64) bool { return true })
		total += n
		if err != nil {
			return total, fmt.Errorf("reissue: %w", err)
		}
		last = ids[len(ids)-1]
	}
}

// restsSince tells an orphan still from a step that has got a new message, or a wait, since it was looked up: another server may lead.
func restsSince(age time.Duration) func(st *stepRow, now int64) bool {
	return func(st *stepRow, now int64) bool {
		return st.EmittedAt < now-age.Microseconds() && (st.State == stepRunning || st.NotBefore <= now)
	}
}

// reissue emits steps anew that a message must stand for, unless they have moved on since they were looked up.
func (s *Store) reissue(ctx context.Context, name string, ids []string, still func(st *stepRow, now int64) bool) (int, error) {
	n := 0
	err := s.updateAndHand(ctx, name, locks{level: lockSteps, steps: ids}, func(u *unit) {
		n = 0
		for _, id := range sortedKeys(u.steps) {
			if st := u.steps[id]; st.Phase == phaseOpen && !st.live(u.now) && still(st, u.now) {
				u.emit(st)
				n++
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// forget removes what only served for a while.
func (s *Store) forget(ctx context.Context) error {
	err := s.db.UpdateRelaxed(ctx, "forget", func(tx *sqldb.Tx) error {
		for name, age := range map[string]time.Duration{
			"forget_keys": keepKeys, "forget_workers": keepWorkers, "forget_events": keepEvents,
			"forget_webhooks": keepHooks, "forget_webhook_secrets": 0,
		} {
			if _, err := tx.Exec(ctx, q(name), age.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	return nil
}

// strings reads one column of text.
func (s *Store) strings(ctx context.Context, name string, args ...any) ([]string, error) {
	var all []string
	err := s.db.View(ctx, name, func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q(name), func(scan func(...any) error) error {
			var v string
			err := scan(&v)
			all = append(all, v)
			return err
		}, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}
