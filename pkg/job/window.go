package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Jobs and the parts of fan-outs enter their queues through a window per tenant, so that whoever hands in ten thousand has no
// more of them in front of others than whoever hands in ten. What is beyond the window, or beyond the fleet's soft limit, is
// held in the record without a message, and the leader lets it in as room comes up.

const (
	enterEvery  = time.Second // windows are wider than what the fleet works on at once, so that nothing idles meanwhile
	enterBatch  = 50          // jobs or parts that enter in one transaction
	entersATick = 500
)

// load is how much of a tenant's work the fleet has.
type load struct {
	tenant            string
	underWay, waiting int64 // jobs
	weight            int64
	enteredAt, window int64 // when one entered last after a wait; of the oldest job that waits
}

// room is how many more may be under way.
func room(window, weight, underWay int64) int64 {
	if window == 0 {
		return math.MaxInt64
	}
	return max(0, window*weight-underWay)
}

// mustWait decides about a job that has just been admitted, and is in l. Jobs of one tenant enter in the order of their submission.
func (u *unit) mustWait(l load, window, softLimit int64) (bool, error) {
	if l.waiting > 0 || room(window, l.weight, l.underWay-1) == 0 {
		return true, nil
	}
	if softLimit == 0 {
		return false, nil
	}
	all, err := u.allUnderWay()
	return all > softLimit, err
}

// roomForParts is how many parts of a fan-out enter at once: none while others of the tenant wait. Whoever takes room has locked
// the account, so that fan-outs of one tenant come one after the other.
func (u *unit) roomForParts(tenant string, to Route) (int64, error) {
	if to.Window == 0 {
		return math.MaxInt64, nil
	}
	if !u.accounts {
		return 0, errNeedAccounts
	}
	var underWay, weight int64
	var others bool
	if err := u.tx.One(u.ctx, q("parts_under_way"), []any{tenant, to.Queue}, &underWay, &others, &weight); err != nil {
		return 0, fmt.Errorf("count parts under way: %w", err)
	}
	if others {
		return 0, nil
	}
	for _, s := range u.newSteps {
		if s.Tenant == tenant && s.Queue == to.Queue && s.Part >= 0 && s.State == stepQueued {
			underWay++
		}
	}
	return room(to.Window, weight, underWay), nil
}

// enter lets in what there is room for.
func (s *Store) enter(ctx context.Context) error {
	return errors.Join(s.enterJobs(ctx), s.enterParts(ctx))
}

func (s *Store) enterJobs(ctx context.Context) error {
	var tenants []*load
	free := int64(entersATick)
	err := s.db.View(ctx, "waiting_tenants", func(tx *sqldb.Tx) error {
		tenants = nil
		err := tx.Query(ctx, q("waiting_tenants"), func(scan func(...any) error) error {
			l := &load{}
			tenants = append(tenants, l)
			return scan(&l.tenant, &l.weight, &l.underWay, &l.waiting, &l.enteredAt, &l.window)
		})
		if err != nil || len(tenants) == 0 || s.opt.SoftLimit == 0 {
			return err
		}
		var all int64
		err = tx.One(ctx, q("under_way"), nil, &all)
		free = min(free, s.opt.SoftLimit-all)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for jobs that wait: %w", err)
	}
	turns := share(tenants, free)
	var errs []error // one tenant's fault is not the others'
	for _, l := range tenants {
		for left := turns[l.tenant]; left > 0 && ctx.Err() == nil; left -= enterBatch {
			if err := s.enterJobsOf(ctx, l.tenant, l.window, min(left, enterBatch)); err != nil {
				errs = append(errs, fmt.Errorf("let jobs of %s in: %w", l.tenant, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// share gives free places away one at a time, each to the tenant that has the least under way for its weight, and among equals
// to the one whose last turn is longest ago. So shares follow weights, and nobody's turn fails to come.
func share(tenants []*load, free int64) map[string]int64 {
	turns := map[string]int64{}
	may := slices.Clone(tenants)
	for turn := int64(0); turn < free; turn++ {
		may = slices.DeleteFunc(may, func(l *load) bool { return l.waiting == 0 || room(l.window, l.weight, l.underWay) == 0 })
		if len(may) == 0 {
			break
		}
		next := slices.MinFunc(may, func(a, b *load) int {
			return cmp.Or(cmp.Compare(a.underWay*b.weight, b.underWay*a.weight), cmp.Compare(a.enteredAt, b.enteredAt), cmp.Compare(a.tenant, b.tenant))
		})
		next.underWay++
		next.waiting--
		next.enteredAt = math.MaxInt64 - free + turn
		turns[next.tenant]++
	}
	return turns
}

// enterJobsOf lets a tenant's n oldest jobs that wait in, or those of them for which there is room still.
func (s *Store) enterJobsOf(ctx context.Context, tenant string, window, n int64) error {
	return s.decide(ctx, "enter_jobs", func(u *unit) error {
		if err := u.lockAccount(tenant); err != nil {
			return err
		}
		left, err := u.roomForJobs(tenant, window, s.opt.SoftLimit)
		if err != nil {
			return err
		}
		ids, err := u.list(q("waiting_jobs"), tenant, min(n, left))
		if err != nil || len(ids) == 0 {
			return err
		}
		steps, err := u.loadJobs(ids)
		if err != nil {
			return err
		}
		slices.SortFunc(steps, func(a, b *stepRow) int { return cmp.Compare(a.Job, b.Job) })
		for _, st := range steps {
			if st.State == stepHeld && st.IsFirst == 1 {
				st.job.State, st.job.dirty = jobActive, true
				u.admitHeld(st)
			}
		}
		_, err = u.tx.Exec(ctx, q("jobs_entered"), tenant, len(u.outbox), u.now)
		return err
	})
}

// roomForJobs is how many jobs of a tenant, whose account is locked, may enter now: another server may have let some in.
func (u *unit) roomForJobs(tenant string, window, softLimit int64) (int64, error) {
	a, err := u.readAccount(tenant)
	if err != nil {
		return 0, err
	}
	left := room(window, a.weight, a.inFlight-a.waiting)
	if softLimit == 0 {
		return left, nil
	}
	all, err := u.allUnderWay()
	return min(left, max(0, softLimit-all)), err
}

func (u *unit) allUnderWay() (int64, error) {
	var all int64
	if err := u.tx.One(u.ctx, q("under_way"), nil, &all); err != nil {
		return 0, fmt.Errorf("count jobs under way: %w", err)
	}
	return all, nil
}

func (u *unit) admitHeld(s *stepRow) {
	u.set(s, stepQueued)
	u.emit(s)
}

// lane is where a tenant's parts meet each other.
type lane struct{ tenant, queue string }

func (s *Store) enterParts(ctx context.Context) error {
	var lanes []lane
	err := s.db.View(ctx, "held_lanes", func(tx *sqldb.Tx) error {
		lanes = nil
		return tx.Query(ctx, q("held_lanes"), func(scan func(...any) error) error {
			var l lane
			err := scan(&l.tenant, &l.queue)
			lanes = append(lanes, l)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("look for parts that wait: %w", err)
	}
	var errs []error // one lane's fault is not the others'
	for _, l := range lanes {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.enterPartsOf(ctx, l); err != nil {
				errs = append(errs, fmt.Errorf("let parts of %s into %s: %w", l.tenant, l.queue, err))
			}
		}
	}
	return errors.Join(errs...)
}

// enterPartsOf lets a tenant's oldest parts into a queue, and reports whether there may be room for more.
func (s *Store) enterPartsOf(ctx context.Context, l lane) (bool, error) {
	var ids []string
	err := s.decide(ctx, "enter_parts", func(u *unit) error {
		err := u.lockAccount(l.tenant)
		if err == nil {
			ids, err = u.partsThatMay(l)
		}
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := u.load(lockSteps, ids); err != nil {
			return err
		}
		for _, id := range ids {
			if st := u.steps[id]; st != nil && st.State == stepHeld {
				u.admitHeld(st)
			}
		}
		return nil
	})
	return err == nil && len(ids) == enterBatch, err
}

// partsThatMay returns the parts for which there is room, at most enterBatch.
func (u *unit) partsThatMay(l lane) ([]string, error) {
	var underWay, weight int64
	var others bool
	if err := u.tx.One(u.ctx, q("parts_under_way"), []any{l.tenant, l.queue}, &underWay, &others, &weight); err != nil {
		return nil, fmt.Errorf("count parts under way: %w", err)
	}
	var ids []string
	err := u.tx.Query(u.ctx, q("held_parts"), func(scan func(...any) error) error {
		var id string
		var window int64
		err := scan(&id, &window)
		if room(window, weight, underWay) > 0 {
			ids = append(ids, id)
			underWay++
		}
		return err
	}, l.tenant, l.queue, enterBatch)
	return ids, err
}
