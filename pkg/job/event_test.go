package job_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

const saidBody = `{"n":1}`

// said is what the provider reports of the only effect.
func (f *fixture) said(h *host) {
	f.t.Helper()
	ids, err := f.s.Strings(f.ctx, "SELECT id FROM effect")
	if err != nil || len(ids) != 1 {
		f.t.Fatalf("effects %v, %v", ids, err)
	}
	raw, err := json.Marshal(job.Event{Provider: "p", ID: "e1", Effect: ids[0], Body: []byte(saidBody)})
	if err != nil {
		f.t.Fatal(err)
	}
	h.mu.Lock()
	h.argument = string(raw)
	h.mu.Unlock()
}

// report starts children that report the event at the same time.
func (h *host) report(url string, n int) []*process {
	h.t.Helper()
	var all []*process
	for i := range n {
		all = append(all, h.start("event", fmt.Sprint("event", i), url))
	}
	return all
}

// killed reports the event in a child that is killed at a point.
func (h *host) killed(url, point string) {
	h.t.Helper()
	reached, release := h.stopOf("victim", point)
	p := h.start("event", "victim", url)
	h.wait(reached)
	p.kill()
	release()
}

func TestAProviderEventFiveTimesInAnyOrderConverges(t *testing.T) {
	orders := map[string]func(f *fixture, h *host, url string){
		"before the await commits": func(f *fixture, h *host, url string) {
			reached, release := h.stopOf("owner", pointWorked)
			owner := h.start("one", "owner", url)
			h.wait(reached)
			f.said(h)
			h.killed(url, pointCommitting+doingEvent)
			h.killed(url, pointCommitted+doingEvent)
			for _, p := range h.report(url, 3) {
				h.ended(p)
			}
			release()
			h.ended(owner)
		},
		"after it": func(f *fixture, h *host, url string) {
			h.ended(h.start("one", "owner", url))
			f.said(h)
			h.killed(url, pointCommitting+doingEvent)
			h.killed(url, pointCommitted+doingEvent)
			for _, p := range h.report(url, 3) {
				h.ended(p)
			}
		},
		"at once": func(f *fixture, h *host, url string) {
			reached, release := h.stopOf("owner", pointCommitting+doingEnd)
			owner := h.start("one", "owner", url)
			h.wait(reached)
			f.said(h)
			all := h.report(url, 5)
			f.waiting(all[0])
			all[0].kill()
			release()
			h.ended(owner)
			for _, p := range all[1:] {
				h.ended(p)
			}
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
				j := f.give(h, f.submission("talk"))
				h.roll(diceAwait)
				order(f, h, url)
				f.state(j.ID, job.Queued)
				if ids, err := f.s.Strings(f.ctx, "SELECT event FROM step"); err != nil || len(ids) != 1 || ids[0] != saidBody {
					t.Fatalf("the step was told %v, %v", ids, err)
				}
				if n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM inbox"); err != nil || n != 1 {
					t.Fatalf("%d inbox items, %v", n, err)
				}
				f.age(time.Hour)
				h.show()
				end := f.finish(h, j.ID)
				if s := end.Steps[0]; end.State != job.Completed || len(s.History) != 2 || s.Attempts != 1 || s.Crashes != 0 {
					t.Fatalf("job %+v", end)
				}
				f.soundWith(h)
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
				got, err := f.s.End(f.ctx, ending(c, outcome.Await(e.ID, time.Now().Add(time.Hour))))
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

func TestTheCommitterAndTheRelayMaySendTheSameRowsAtOnce(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		j := f.give(h, f.submission("talk"))
		published, commit := h.stopOf("committer", pointPublished)
		sent, mark := h.stopOf("relay", pointSent)
		committer := h.start("one", "committer", url)
		h.wait(published)
		f.age(time.Hour) // the committer's lease on its rows ends before it sends them
		relay := h.start("server", "relay", url)
		defer relay.kill()
		h.wait(sent)
		if n := len(h.rows()); n != 1+3 {
			t.Fatalf("%d messages, want the one at work and three from the relay", n)
		}
		commit()
		h.ended(committer)
		if n := len(h.rows()); n != 6 || f.unsent() != 3 {
			t.Fatalf("%d messages and %d rows: the committer sends what it has, and marks nothing that is the relay's", n, f.unsent())
		}
		mark()
		for deadline := time.Now().Add(patience); f.unsent() > 0; {
			if time.Now().After(deadline) {
				t.Fatal("the relay marks nothing")
			}
			<-time.After(10 * time.Millisecond)
		}
		end := f.finish(h, j.ID)
		for _, s := range end.Steps {
			if s.Attempts != 1 || s.Crashes != 0 || len(s.History) != 1 {
				t.Errorf("step %+v", s)
			}
		}
		if end.State != job.Completed || len(end.Steps) != 5 {
			t.Errorf("job %+v", end)
		}
		f.soundWith(h)
	})
}
