package job_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
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
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
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
	for _, point := range []string{
		pointReceived, pointCommitting + doingClaim, pointCommitted + doingClaim, pointClaimed, pointCalled, pointWorked,
		pointCommitting + doingPublish, pointCommitted + doingPublish, pointPublished, pointSent, pointMarked,
	} {
		t.Run(point, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
				j := f.give(h, f.submission("talk"))
				reached, release := h.stop(point)
				p := h.start("one", "victim", url)
				h.wait(reached)
				p.kill()
				release()
				f.age(time.Hour) // leases of steps and of outbox rows end
				h.show()
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
