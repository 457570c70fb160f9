package localsqs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Effect is what a Fault does to a call.
type Effect string

// The effects of a Fault.
const (
	Fail      Effect = "fail"      // answer 500 and do nothing
	Throttle  Effect = "throttle"  // answer RequestThrottled and do nothing; a receive's ReceiveRequestAttemptId is then spent
	Delay     Effect = "delay"     // wait for Fault.Delay, then go on
	Drop      Effect = "drop"      // break the connection and do nothing
	Lose      Effect = "lose"      // do it, then break the connection instead of replying
	Partial   Effect = "partial"   // fail some entries of a batch, chosen at random: at least one, and not all of several
	Duplicate Effect = "duplicate" // leave what a receive of a standard queue returns visible, so that it comes again
)

var effects = []Effect{Fail, Throttle, Delay, Drop, Lose, Partial, Duplicate}

// Fault is one rule for things that go wrong. Calls that match Action and Queue are counted from one; the rule strikes
// the Nth of them, or a random Share, or all if both are zero.
type Fault struct {
	Effect Effect
	Action string        // an SQS action such as "ReceiveMessage"; empty matches all
	Queue  string        // a queue's name; empty matches all
	Nth    int           // strike only this matching call; 0 leaves it to Share
	Share  float64       // strike this share of the matching calls, above 0 and up to 1
	Times  int           // strike at most so often; 0 means no limit
	Delay  time.Duration // for the effect Delay, above 0
}

// Faults are the rules in force. The same Seed and the same order of calls give the same faults.
type Faults struct {
	Seed  uint64
	Rules []Fault
}

// Validate reports the first rule that cannot work, by field, value and bound.
func (f Faults) Validate() error {
	for i, rule := range f.Rules {
		if err := rule.validate(); err != nil {
			return fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	return nil
}

func (f Fault) validate() error {
	_, known := operations()[f.Action]
	switch {
	case !slices.Contains(effects, f.Effect):
		return fmt.Errorf("Effect is %q, want one of %v", f.Effect, effects)
	case f.Action != "" && !known:
		return fmt.Errorf("Action is %q, want an SQS action", f.Action)
	case f.Nth < 0 || f.Times < 0:
		return fmt.Errorf("Nth is %d and Times is %d, want at least 0", f.Nth, f.Times)
	case f.Share < 0 || f.Share > 1:
		return fmt.Errorf("Share is %v, want 0 to 1", f.Share)
	case f.Nth > 0 && f.Share > 0:
		return fmt.Errorf("Nth is %d and Share is %v, want one of them", f.Nth, f.Share)
	case (f.Delay > 0) != (f.Effect == Delay):
		return fmt.Errorf("Delay is %v, want above 0 for the effect %q and 0 for others", f.Delay, Delay)
	}
	return nil
}

// SetFaults replaces the rules in force and starts their counts anew; the zero Faults ends all faults. It fails if
// Faults.Validate does. It is safe to call while requests are served.
func (s *Server) SetFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.random = rand.New(rand.NewPCG(f.Seed, 0))
	s.faults.rules = nil
	for _, rule := range f.Rules {
		s.faults.rules = append(s.faults.rules, &countedFault{Fault: rule})
	}
	return nil
}

// faultPlan is the rules in force with their counts.
type faultPlan struct {
	mu     sync.Mutex
	random *rand.Rand
	rules  []*countedFault
}

type countedFault struct {
	Fault
	seen, struck int
}

// strike is what the faults do to one call.
type strike struct {
	effects map[Effect]bool
	delay   time.Duration
	random  uint64 // seeds the choice of entries
}

// on decides about one call.
func (p *faultPlan) on(action string, body []byte) strike {
	p.mu.Lock()
	defer p.mu.Unlock()
	hit := strike{}
	if len(p.rules) == 0 {
		return hit
	}
	hit.effects = map[Effect]bool{}
	queue := queueOf(body)
	for _, rule := range p.rules {
		if !rule.matches(action, queue) || !rule.due(p.random) {
			continue
		}
		rule.struck++
		hit.effects[rule.Effect] = true
		hit.delay += rule.Delay
		hit.random = p.random.Uint64()
	}
	return hit
}

// matches leaves out calls that the effect cannot change, so that they are not counted.
func (f *countedFault) matches(action, queue string) bool {
	switch {
	case f.Action != "" && f.Action != action, f.Queue != "" && f.Queue != queue:
		return false
	case f.Effect == Partial:
		return strings.HasSuffix(action, "Batch")
	case f.Effect == Duplicate:
		return action == "ReceiveMessage"
	}
	return true
}

func (f *countedFault) due(random *rand.Rand) bool {
	f.seen++
	switch {
	case f.Times > 0 && f.struck >= f.Times:
		return false
	case f.Nth > 0:
		return f.seen == f.Nth
	case f.Share > 0:
		return random.Float64() < f.Share
	}
	return true
}

// queueOf finds the name of the queue that a request is about, empty if it names none.
func queueOf(body []byte) string {
	var in struct{ QueueUrl, QueueName string }
	_ = json.Unmarshal(body, &in) // a body that cannot be read is refused later
	if in.QueueName != "" {
		return in.QueueName
	}
	_, name := cutLast(in.QueueUrl)
	return name
}

// before applies what happens instead of the call or ahead of it.
func (h *strike) before(ctx context.Context, closing <-chan struct{}) error {
	if h.delay > 0 {
		timer := time.NewTimer(h.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return errClientGone()
		case <-closing:
			return errClosed()
		}
	}
	switch {
	case h.effects[Drop]:
		panic(http.ErrAbortHandler)
	case h.effects[Throttle]:
		return errThrottled()
	case h.effects[Fail]:
		return errInternal("A fault was asked for.")
	}
	return nil
}

// after applies what happens once the call has had its effect.
func (h *strike) after() {
	if h.effects[Lose] {
		panic(http.ErrAbortHandler)
	}
}

// spares reports, for a batch of n entries, which of them do not fail.
func (h *strike) spares(n int) func(i int) bool {
	if !h.effects[Partial] {
		return func(int) bool { return true }
	}
	random := rand.New(rand.NewPCG(h.random, 0))
	failing := 1
	if n > 2 {
		failing += random.IntN(n - 2)
	}
	order := random.Perm(n)
	return func(i int) bool { return !slices.Contains(order[:failing], i) }
}
