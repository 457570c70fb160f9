package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// The answer to a commit can be lost with the connection. Then a step may be claimed for somebody who does not know it, and
// the end of its lease would count as a crash of a worker that has done nothing wrong. So the token of a claim is chosen before the
// call: the same claim asked for again is the same claim, and one that nobody has the answer to is given back.
//
// What stays in doubt until its lease ends, because the store is away for so long, counts as a crash if another owner comes first.
// The record cannot tell it apart: an owner that never heard of its claim and one whose process was ended by the work have both
// said nothing since, and only counting the second kind stops poison. It is one of MaxCrashes for one outage, and no attempt.

// reasonNeverRun is why a claim ended that nobody knew to be theirs. Nobody pays for it.
const reasonNeverRun = "never_run"

const (
	againTime = 5 * time.Second // for asking for a lost answer again, at once
	lastTime  = time.Second     // for the last try, when the store is closed
)

// doubts are claims whose outcome this process does not know.
type doubts struct {
	mu      sync.Mutex
	waiting []ClaimRequest
}

func (d *doubts) add(rs ...ClaimRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, rs...)
}

func (d *doubts) take() []ClaimRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.waiting
	d.waiting = nil
	return all
}

// claimSurely asks for lost answers again. What cannot be learnt now is in doubt until a Ping succeeds.
func (s *Store) claimSurely(ctx context.Context, rs []ClaimRequest) ([]claimed, error) {
	got, err := s.claimBatch(ctx, rs)
	if !errors.Is(err, sqldb.ErrUnknown) {
		return got, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), againTime)
	defer cancel()
	if got, err = s.claimBatch(ctx, rs); err != nil {
		s.doubts.add(rs...)
		// None of them may be run by a further try of the batch either.
		err = errors.Join(sqldb.ErrUnknown, err)
	}
	return got, err
}

// releaseOrphans gives back steps that were claimed for callers who have stopped waiting: nobody would run them.
func (s *Store) releaseOrphans(rs []ClaimRequest, got []claimed) {
	var held []ClaimRequest
	for i, r := range rs {
		if got[i].refused == nil {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), againTime)
	defer cancel()
	if s.giveBack(ctx, held) != nil {
		s.doubts.add(held...)
	}
}

// clearDoubts gives back what may have been claimed without anybody's knowing.
func (s *Store) clearDoubts(ctx context.Context) error {
	rs := s.doubts.take()
	if len(rs) == 0 {
		return nil
	}
	if err := s.giveBack(ctx, rs); err != nil {
		s.doubts.add(rs...)
		return fmt.Errorf("give back claims of unknown outcome: %w", err)
	}
	return nil
}

// giveBack releases the steps that these requests, and nobody else, hold. Their messages are hidden for a while and still there.
func (s *Store) giveBack(ctx context.Context, rs []ClaimRequest) error {
	ids := make([]string, len(rs))
	for i, r := range rs {
		ids[i] = r.Step
	}
	slices.Sort(ids)
	return s.updateAndHand(ctx, "give_back", locks{level: lockSteps, steps: slices.Compact(ids)}, func(u *unit) {
		for _, r := range rs {
			st := u.steps[r.Step]
			if st == nil || st.State != stepRunning || st.Token != r.token {
				continue
			}
			u.release(st, outcome.KindInterrupted, reasonNeverRun, Timings{})
			if r.ReceivesAtLimit {
				u.emit(st)
			}
		}
	})
}
