package job_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Each of these interrupts a process after its effect has become hard to undo, and then asks the record.

// onBothWithHost gives a test a store, its address for children, and a host.
func onBothWithHost(t *testing.T, test func(t *testing.T, f *fixture, h *host, url string)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := freshURL(t, kind)
			f := newFixture(t, open(t, url, job.Options{}))
			test(t, f, newHost(t, 1), url)
		})
	}
}

// give submits a job and puts its message into the host's queue.
func (f *fixture) give(h *host, sub job.Submission) job.Job {
	f.t.Helper()
	j := f.submit(sub)
	f.hand(h)
	return j
}

// hand moves what the fixture has sent into the host's queues.
func (f *fixture) hand(h *host) {
	f.queues.mu.Lock()
	defer f.queues.mu.Unlock()
	h.put(f.queues.sent)
	f.queues.sent = nil
}

// finish works in this process until a job has ended.
func (f *fixture) finish(h *host, id string) job.Job {
	f.t.Helper()
	g := &gateway{h}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if j := f.job(id); j.State.Ended() {
			return j
		}
		f.relay()
		f.pump(nil)
		f.hand(h)
		f.step(g)
	}
	f.t.Fatalf("job does not end: %+v", f.job(id))
	return job.Job{}
}

// step takes one message through its life, as a child does, but never dies.
func (f *fixture) step(g *gateway) {
	f.t.Helper()
	var m Received
	var ok bool
	if _ = g.Receive("", &m); m.Receipt == "" {
		return
	}
	stage := m.Row.Queue[len("q-"):]
	r := request(m.Row, stage)
	r.MaxCrashes = 1000
	c, err := f.s.Claim(f.ctx, r)
	if no, refused := errors.AsType[*job.ClaimRefused](err); refused {
		f.pump(no.Outgoing)
		if no.Do == job.Delete {
			_ = g.Delete(m.Receipt, &ok)
		} else {
			_ = g.Hide(Hidden{m.Receipt, no.After}, &ok)
		}
		return
	}
	if err != nil {
		f.t.Fatal(err)
	}
	p := job.Publication{Claim: c}
	switch stage {
	case "ingest":
		p.FanOut, p.Next, p.Join = true, next("compile"), next("publish")
		p.Parts = append(p.Parts, []byte(`0`), []byte(`1`), []byte(`2`))
	case "compile":
		p.Next = next("publish")
	}
	f.publish(p)
	_ = g.Delete(m.Receipt, &ok)
}

func (f *fixture) soundWith(h *host) {
	f.t.Helper()
	for _, fault := range faults(f.ctx, f.s, h.rows()) {
		f.t.Error(fault)
	}
}

func TestAKillAtAnyPointOfAStepLosesAndDoublesNothing(t *testing.T) {
	for _, point := range []string{pointReceived, pointClaimed, pointCalled, pointWorked, pointPublished, pointSent, pointMarked} {
		t.Run(point, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
				j := f.give(h, f.submission("talk"))
				reached, release := h.stop(point)
				p := h.start("one", "victim", url)
				h.wait(reached)
				p.kill()
				release()
				f.age(time.Hour) // leases of steps and of outbox rows end
				h.mu.Lock()
				for _, m := range h.messages {
					m.visible = time.Time{}
				}
				h.mu.Unlock()
				end := f.finish(h, j.ID)
				if end.State != job.Completed || len(end.Steps) != 5 {
					t.Fatalf("job %+v", end)
				}
				for id, n := range h.paid {
					if n > 1 {
						t.Errorf("effect %s was done %d times with one identifier", id, n)
					}
				}
				f.soundWith(h)
			})
		})
	}
}

func TestAnEffectWhoseAnswerWasLostIsAskedForAgainUnderItsIdentifier(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		f.give(h, f.submission("talk"))
		reached, release := h.stop(pointCalled)
		p := h.start("one", "victim", url)
		h.wait(reached)
		p.kill()
		release()
		f.age(time.Hour)
		h.mu.Lock()
		h.messages[0].visible = time.Time{}
		h.gate = nil
		h.mu.Unlock()
		h.ended(h.start("one", "heir", url))
		if len(h.paid) != 1 {
			t.Fatalf("payments under %d identifiers: %v", len(h.paid), h.paid)
		}
		for id, n := range h.paid {
			if n != 2 {
				t.Errorf("%s asked %d times, want 2", id, n)
			}
		}
		f.soundWith(h)
	})
}

func TestAFrozenOwnerThatThawsAfterItsLeaseChangesNothing(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		j := f.give(h, f.submission("talk"))
		row := h.rows()[0]
		reached, release := h.stop(pointWorked)
		p := h.start("one", "frozen", url)
		h.wait(reached)
		p.signal(syscall.SIGSTOP)
		release()
		f.age(time.Hour)
		heir := f.claimRow(row, "ingest")
		p.signal(syscall.SIGCONT)
		h.ended(p)
		s := f.job(j.ID).Steps[0]
		if s.State != job.Running || s.Worker != "w1" || s.Crashes != 1 {
			t.Fatalf("step %+v", s)
		}
		if n := len(f.job(j.ID).Steps); n != 1 {
			t.Fatalf("%d steps: the frozen owner has moved the job on", n)
		}
		f.accepted(job.Publication{Claim: heir, Next: next("transcribe")})
		f.hand(h)
		f.soundWith(h)
	})
}

func TestAFrozenOwnerOfAnOldVersionThawsIntoASupersededJob(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		one := f.give(h, f.submission("talk"))
		reached, release := h.stop(pointWorked)
		p := h.start("one", "frozen", url)
		h.wait(reached)
		p.signal(syscall.SIGSTOP)
		release()
		sub := f.submission("talk")
		sub.Digest = "two"
		two := f.submit(sub)
		f.run("ingest", "publish")
		f.run("publish", "")
		p.signal(syscall.SIGCONT)
		h.ended(p)
		f.state(one.ID, job.Superseded)
		if !f.state(two.ID, job.Completed).Current {
			t.Fatal("version 2 is not current")
		}
		f.soundWith(h)
	})
}

func TestAPublicationWhoseTransactionOpenedBeforeTheLeaseEndedIsStillJudgedByTheClock(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		r := request(f.message("ingest"), "ingest")
		r.Lease = 300 * time.Millisecond
		c, err := f.s.Claim(f.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		locked, let := make(chan struct{}), make(chan struct{})
		held := make(chan error, 1)
		go func() { held <- f.s.Hold(f.ctx, c.Step, locked, let) }()
		<-locked
		got := make(chan job.Published, 1)
		go func() {
			p, err := f.s.Publish(f.ctx, job.Publication{Claim: c, Next: next("transcribe")})
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
		<-time.After(400 * time.Millisecond)
		close(let)
		if err := <-held; err != nil {
			t.Fatal(err)
		}
		if p := <-got; p.Accepted || p.Reason != job.ReasonLapsed {
			t.Fatalf("published %+v after its lease", p)
		}
	})
}

func TestTheLastTwoPartsFinishingAtOnceInTwoProcessesJoinOnce(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 2)
		f.hand(h)
		reached, release := h.stop(pointWorked)
		a, b := h.start("one", "a", url), h.start("one", "b", url)
		h.wait(reached)
		h.wait(reached)
		release()
		h.ended(a)
		h.ended(b)
		end := f.finish(h, j.ID)
		joins := 0
		for _, s := range end.Steps {
			if s.Stage == "publish" {
				joins++
			}
		}
		if end.State != job.Completed || joins != 1 {
			t.Fatalf("%d joins, job %s", joins, end.State)
		}
		f.soundWith(h)
	})
}

func TestARelayKilledBetweenSendAndMarkSendsTwiceAndRunsOnce(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		j, err := f.s.Submit(f.ctx, f.submission("talk"))
		if err != nil {
			t.Fatal(err)
		}
		f.s.Handed()
		f.age(time.Hour)
		reached, release := h.stop(pointSent)
		p := h.start("server", "relay", url)
		h.wait(reached)
		p.kill()
		release()
		if f.unsent() != 1 {
			t.Fatal("marked before the kill")
		}
		f.age(time.Hour)
		if end := f.finish(h, j.ID); end.State != job.Completed || end.Steps[0].Attempts != 1 {
			t.Fatalf("job %+v", end)
		}
		f.soundWith(h)
	})
}

func TestARedriveInterruptedAnywhereRevivesTheStepOnce(t *testing.T) {
	for _, point := range []string{pointRedriven, pointSent, pointMarked} {
		t.Run(point, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
				j := f.submit(f.submission("talk"))
				f.end(f.claim("ingest"), outcome.Quarantine("bug", nil))
				f.queues.take("dlq-ingest")
				h.argument = j.ID
				reached, release := h.stop(point)
				p := h.start("redrive", "operator", url)
				h.wait(reached)
				p.kill()
				release()
				if err := f.s.Redrive(f.ctx, j.ID, "again"); !errors.Is(err, job.ErrEnded) {
					t.Fatalf("second redrive: %v, want ErrEnded", err)
				}
				f.age(time.Hour)
				if end := f.finish(h, j.ID); end.State != job.Completed || end.Recovered != 1 {
					t.Fatalf("job %+v", end)
				}
				f.soundWith(h)
			})
		})
	}
}

func TestARefundAttemptedTwiceIsPaidOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		j := f.submit(f.submission("talk"))
		f.fanOut("ingest", 8)
		errs := make(chan error, 8)
		for _, m := range f.queues.take("q-compile") {
			c := f.claimRow(m, "compile")
			go func() {
				v := outcome.Of(outcome.Quarantine("bug", nil))
				_, err := f.s.End(f.ctx, job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, 1, 0)})
				errs <- err
			}()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		f.state(j.ID, job.Failed)
		if f.balance() != 0 {
			t.Fatalf("balance %d", f.balance())
		}
		f.sound()
	})
}

func TestAProviderEventFiveTimesInAnyOrderConverges(t *testing.T) {
	orders := [][]string{{"receive", "park", "receive"}, {"park", "receive", "receive"}, {"receive", "receive", "park"}}
	for i, order := range orders {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			onBoth(t, func(t *testing.T, f *fixture) {
				f.submit(f.submission("talk"))
				c := f.claim("ingest")
				e := f.begin(c, "x")
				event := job.Event{Provider: "p", ID: "e1", Effect: e.ID, Body: []byte(`{"n":1}`)}
				for _, what := range order {
					if what == "park" {
						f.end(c, outcome.Await(e.ID, time.Now().Add(time.Hour)))
						continue
					}
					f.receive(event)
				}
				for range 3 {
					f.receive(event)
				}
				if c := f.claim("ingest"); string(c.Event) != `{"n":1}` {
					t.Fatalf("event %s", c.Event)
				}
				if n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM inbox"); err != nil || n != 1 {
					t.Fatalf("%d inbox items, %v", n, err)
				}
			})
		})
	}
}

func TestParkAndCallbackAtOnceNeverMissEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for i := range 20 {
			f.submit(f.submission(fmt.Sprint("talk", i)))
			c := f.claim("ingest")
			e := f.begin(c, "x")
			done := make(chan error, 2)
			go func() {
				_, err := f.s.Receive(f.ctx, job.Event{Provider: "p", ID: e.ID, Effect: e.ID, Body: []byte(`{}`)})
				done <- err
			}()
			go func() {
				v := outcome.Of(outcome.Await(e.ID, time.Now().Add(time.Hour)))
				got, err := f.s.End(f.ctx, job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, 1, 0)})
				if err == nil {
					err = f.s.Dispatch(context.WithoutCancel(f.ctx), f.queues, got.Outgoing)
				}
				done <- err
			}()
			for range 2 {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			f.pump(nil)
			f.run("ingest", "")
		}
		f.sound()
	})
}
