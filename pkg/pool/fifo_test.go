package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// groups counts handlers per FIFO group and in all.
type groups struct {
	mu          sync.Mutex
	live        map[string]int
	overlap     int
	all, allMax int
	order       map[string][]string
}

func (g *groups) wrap(next pool.Handler) pool.Handler {
	return func(ctx context.Context, m pool.Message) error {
		g.mu.Lock()
		if g.live == nil {
			g.live, g.order = map[string]int{}, map[string][]string{}
		}
		g.live[m.GroupID]++
		g.all++
		g.overlap, g.allMax = max(g.overlap, g.live[m.GroupID]), max(g.allMax, g.all)
		g.order[m.GroupID] = append(g.order[m.GroupID], strings.TrimPrefix(m.Body, m.GroupID+":"))
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			g.live[m.GroupID]--
			g.all--
			g.mu.Unlock()
		}()
		return next(ctx, m)
	}
}

func TestGroupsRunBesideEachOtherAndInThemselvesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", nil)
		for i := range 10 {
			for g := range 10 {
				r.send(fmt.Sprintf("g%d:%d", g, i))
			}
		}
		g := &groups{}
		r.run(pool.Config{Slots: 10, Middleware: []pool.Middleware{g.wrap}, Handler: sleeper(time.Second)})
		settle(time.Minute)
		if g.overlap != 1 || g.allMax != 10 {
			t.Errorf("overlap in a group %d, in all %d, want 1 and 10", g.overlap, g.allMax)
		}
		for group, order := range g.order {
			if !slices.Equal(order, strings.Fields("0 1 2 3 4 5 6 7 8 9")) {
				t.Errorf("group %s ran %v", group, order)
			}
		}
		for _, c := range r.made("receive") {
			if c.max != 1 {
				t.Fatalf("asked for %d of a FIFO queue, want 1", c.max)
			}
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestOneGroupNeverOverlapsWhateverTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", nil)
		for i := range 10 {
			r.send(fmt.Sprintf("g:%d", i))
		}
		g := &groups{}
		r.run(pool.Config{Slots: 10, Middleware: []pool.Middleware{g.wrap}, Handler: sleeper(6 * time.Second), Visibility: 20 * time.Second})
		settle(10 * time.Minute)
		if g.allMax != 1 || len(g.order["g"]) != 10 {
			t.Errorf("overlap %d, runs %v, want 1 and ten", g.allMax, g.order["g"])
		}
	})
}

func TestFailureBlocksItsGroupForItsBackoffAndNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", map[string]string{"VisibilityTimeout": "900"})
		for i := range 5 {
			r.send(fmt.Sprintf("g:%d", i))
		}
		var resumed time.Duration
		g := &groups{}
		r.run(pool.Config{Visibility: 15 * time.Minute, Policy: outcome.Policy{Waits: []time.Duration{5 * time.Second}}, Middleware: []pool.Middleware{g.wrap},
			Handler: func(_ context.Context, m pool.Message) error {
				if m.Body == "g:1" && m.Attempt == 1 {
					return errors.New("no luck")
				}
				if m.Body == "g:2" {
					resumed = time.Since(r.start)
				}
				return nil
			}})
		settle(time.Minute)
		if !slices.Equal(g.order["g"], []string{"0", "1", "1", "2", "3", "4"}) {
			t.Errorf("ran %v, want nothing to overtake the failed one", g.order["g"])
		}
		if resumed < 5*time.Second || resumed > 7*time.Second {
			t.Errorf("group went on at %v, want at 5 to 7 s", resumed)
		}
	})
}

func TestPoisonAtTheHeadOfAGroupDeadLettersNothingUntried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", map[string]string{"maxReceiveCount": "3"})
		for i := range 10 {
			r.send(fmt.Sprintf("g:%d", i))
		}
		g := &groups{}
		r.run(pool.Config{Policy: outcome.Policy{Waits: []time.Duration{time.Second}}, Middleware: []pool.Middleware{g.wrap},
			Handler: func(_ context.Context, m pool.Message) error {
				if m.Body == "g:0" {
					return errors.New("poison")
				}
				return nil
			}})
		settle(10 * time.Minute)
		if !slices.Equal(g.order["g"], strings.Fields("0 0 0 1 2 3 4 5 6 7 8 9")) {
			t.Errorf("ran %v, want three tries of the first and one of each other", g.order["g"])
		}
		r.wantCounts(0, 0, 1)
		m := r.peek(r.dlq)[0]
		if *m.Body != "g:0" || *m.MessageAttributes[pool.AttributeReason].StringValue != outcome.ReasonExhausted || m.Attributes["MessageGroupId"] != "g" {
			t.Errorf("dead letter %q %v", *m.Body, m.MessageAttributes)
		}
	})
}

// status is the error of a reply that came with it.
type status int

func (status) Error() string         { return "reply" }
func (s status) HTTPStatusCode() int { return int(s) }

func TestReceiveWhoseAnswerWasLostIsRepeatedUnderTheSameName(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"no reply": errQueue, "a reply that broke off": status(200), "trouble of the queue's": status(503)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "q.fifo", nil)
				r.send("g:0")
				var lost int
				r.after = func(c call) error {
					if c.op == "receive" && lost == 0 {
						lost++
						return err
					}
					return nil
				}
				g := &groups{}
				r.run(pool.Config{Slots: 1, Middleware: []pool.Middleware{g.wrap}})
				settle(2 * time.Second)
				calls := r.made("receive")
				if len(g.order["g"]) != 1 || calls[0].attempt != calls[1].attempt || calls[0].attempt == "" || calls[2].attempt == calls[1].attempt {
					t.Errorf("ran %v after receives %+v, want it without waiting for the visibility", g.order["g"], calls)
				}
			})
		})
	}
}

func TestReceiveThatWasRefusedIsNotRepeatedUnderItsName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q.fifo", nil)
		spoilt := map[string]bool{}
		// SQS takes no name a second time whose receive it throttled, whatever else has changed.
		r.fail(func(c call) error {
			switch {
			case c.op != "receive":
				return nil
			case spoilt[c.attempt]:
				return &smithy.GenericAPIError{Code: "InvalidParameterValue"}
			case len(spoilt) == 0:
				spoilt[c.attempt] = true
				return &types.RequestThrottled{}
			}
			return nil
		})
		c := &counter{}
		r.run(pool.Config{Middleware: []pool.Middleware{c.wrap}})
		r.send("g:a")
		settle(30 * time.Second)
		if c.total() != 1 {
			t.Errorf("%d runs, want 1: a refused name was used again and again", c.total())
		}
	})
}
