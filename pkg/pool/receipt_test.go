package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// slowReplies makes the replies of one kind of call take as long, after the queue has done what was asked.
func (r *rig) slowReplies(op string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = func(c call) error {
		if c.op == op {
			pause(d)
		}
		return nil
	}
}

func TestMessageThatComesBackBeforeItsReleaseIsConfirmedIsRunAndNotLeftHidden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"q", "q.fifo"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, name, map[string]string{"maxReceiveCount": "3"})
				c := &counter{}
				r.slowReplies("hide", time.Second)
				run := r.run(pool.Config{Slots: 2, Policy: outcome.Policy{Waits: []time.Duration{0}}, Middleware: []pool.Middleware{c.wrap},
					Handler: func(_ context.Context, m pool.Message) error {
						if m.Attempt == 1 {
							return errNoLuck
						}
						return nil
					}})
				settle(time.Second)
				r.send("g:a")
				settle(5 * time.Second)
				if c.total() != 2 {
					t.Errorf("%d runs within seconds, want a second one at once", c.total())
				}
				if got := r.received(); got != 2 {
					t.Errorf("received %d times for two runs", got)
				}
				r.wantCounts(0, 0, 0)
				if st := run.Status(); st.Held != 0 || st.Running != 0 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

func TestMessageWhoseWaitIsOverBeforeItIsConfirmedIsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		r.slowReplies("hide", 5*time.Second)
		r.run(pool.Config{Slots: 2, Policy: outcome.Policy{Waits: []time.Duration{2 * time.Second}}, Middleware: []pool.Middleware{c.wrap},
			Handler: func(_ context.Context, m pool.Message) error {
				if m.Attempt == 1 {
					return errNoLuck
				}
				return nil
			}})
		settle(2 * time.Second)
		if c.total() != 1 {
			t.Errorf("%d runs before the wait is over, want 1", c.total())
		}
		settle(8 * time.Second)
		if c.total() != 2 {
			t.Errorf("%d runs, want a second one after the wait", c.total())
		}
		r.wantCounts(0, 0, 0)
	})
}

func TestWaitIsAskedForAgainForAReceiptThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		var a types.Message
		r.edits(func(op string, out any) { // a second copy of a, as standard queues may deliver one
			o, ok := out.(*sqs.ReceiveMessageOutput)
			switch {
			case !ok || len(o.Messages) == 0:
			case *o.Messages[0].Body == "a":
				a = o.Messages[0]
			default:
				a.ReceiptHandle = aws.String("newer")
				o.Messages = append(o.Messages, a)
			}
		})
		r.slowReplies("hide", 5*time.Second)
		r.run(pool.Config{Slots: 10, Policy: outcome.Policy{Waits: []time.Duration{time.Minute}}, Middleware: []pool.Middleware{c.wrap},
			Handler: func(_ context.Context, m pool.Message) error {
				if m.Body == "a" {
					return errNoLuck
				}
				return nil
			}})
		settle(time.Second)
		r.send("b")
		settle(8 * time.Second)
		hides := r.made("hide")
		if last := hides[len(hides)-1]; last.handles[0] != "newer" || last.timeouts[0] != 60 {
			t.Errorf("hidden last by %s for %d s, want the newer receipt for a minute", last.handles[0], last.timeouts[0])
		}
		if c.total() != 2 {
			t.Errorf("%d runs, want one of each", c.total())
		}
	})
}

func TestDeleteThatTheQueueAppliedToAnOldReceiptIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		// The message is not kept hidden; it comes again at 30 s, while its delete by the first receipt is on the way.
		first := true
		r.fail(func(c call) error {
			switch {
			case c.op == "hide":
				return errQueue
			case c.op == "delete" && first:
				first = false
				pause(8 * time.Second)
			}
			return nil
		})
		r.run(pool.Config{Slots: 2, Middleware: []pool.Middleware{c.wrap}, Handler: sleeper(25 * time.Second)})
		settle(40 * time.Second)
		r.wantCounts(0, 0, 0)
		settle(time.Hour)
		if c.total() != 1 {
			t.Errorf("%d runs, want 1", c.total())
		}
	})
}

func TestMessageIsRenewedWhileItsWaitIsRefusedAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "q", nil)
		r.send("a")
		c := &counter{}
		// A beat falls due while the wait is being asked for, which the queue refuses slowly for a minute.
		r.fail(func(c call) error {
			if c.op == "hide" && c.timeouts[0] == 300 && time.Since(r.start) < time.Minute {
				pause(3 * time.Second)
				return errQueue
			}
			return nil
		})
		r.run(pool.Config{Policy: outcome.Policy{Waits: []time.Duration{5 * time.Minute}}, Middleware: []pool.Middleware{c.wrap},
			Handler: func(context.Context, pool.Message) error {
				pause(9 * time.Second)
				return errNoLuck
			}})
		settle(5 * time.Minute)
		if c.total() != 1 || r.received() != 1 {
			t.Errorf("%d runs, received %d times before the wait was over, want 1 and 1", c.total(), r.received())
		}
		settle(2 * time.Minute)
		if c.total() != 2 {
			t.Errorf("%d runs after the wait, want 2", c.total())
		}
	})
}
