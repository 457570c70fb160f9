package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// relay sweeps the outbox once.
func (f *fixture) relay() {
	f.t.Helper()
	if err := f.s.RelayOnce(f.ctx, f.queues); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) unsent() int64 {
	f.t.Helper()
	n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM outbox")
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// lapse ends the leases of senders, ten seconds, and of the leader, fifteen: those that died keep nothing any longer, and what one that
// lives is doing may be done twice.
func (f *fixture) lapse() {
	f.t.Helper()
	for _, text := range []string{"UPDATE outbox SET ready_at = ready_at - 10000000", "UPDATE lease SET until = until - 15000000"} {
		if err := f.s.Change(f.ctx, text); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestARowBelongsToItsCommitterUntilItsLeaseEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		if _, err := f.s.Submit(f.ctx, f.submission("talk")); err != nil {
			t.Fatal(err)
		}
		f.s.Handed() // the committer dies before it sends
		f.age(9 * time.Second)
		f.relay()
		if n := len(f.queues.all()); n != 0 {
			t.Fatal("the relay took a row that its committer may be sending")
		}
		f.age(time.Second)
		f.relay()
		f.claim("ingest")
		if f.unsent() != 0 {
			t.Fatal("a sent row was not marked")
		}
		f.sound()
	})
}

func TestASentRowWhoseMarkWasLostIsSentAgainAndTheCopyIsHarmless(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		if _, err := f.s.Submit(f.ctx, f.submission("talk")); err != nil {
			t.Fatal(err)
		}
		f.queues.Send(f.ctx, f.s.Handed()) // sent, killed before the mark
		f.age(10 * time.Second)
		f.relay()
		twice := f.queues.take("q-ingest")
		if len(twice) != 2 || twice[0].Dedup != twice[1].Dedup {
			t.Fatalf("messages %+v", twice)
		}
		f.accepted(job.Publication{Claim: f.claimRow(twice[0], "ingest"), Next: next("transcribe")})
		if no := f.refused(request(twice[1], "ingest")); no.Do != job.Delete {
			t.Fatalf("copy: %+v", no.Settle)
		}
		f.sound()
	})
}

func TestARowThatCannotBeSentRestsAndDelaysOnlyItsGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.queues.failing = map[string]error{"q-ingest": errBoom}
		poison, err := f.s.Submit(f.ctx, f.submission("poison"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.s.Dispatch(f.ctx, f.queues, f.s.Handed()); err == nil {
			t.Fatal("a failed send was not reported")
		}
		f.queues.failing = nil
		if err := f.s.Change(f.ctx, "UPDATE outbox SET ready_at = ready_at + 60000000"); err != nil { // however slow this machine is
			t.Fatal(err)
		}
		sub := f.submission("poison")
		sub.Digest = "later"
		for _, s := range []job.Submission{sub, f.submission("other")} {
			if _, err := f.s.Submit(f.ctx, s); err != nil {
				t.Fatal(err)
			}
		}
		f.s.Handed()
		if err := f.s.Change(f.ctx, "UPDATE outbox SET ready_at = 0 WHERE failures = 0"); err != nil {
			t.Fatal(err)
		}
		f.relay()
		if m := f.message("ingest"); f.claimRow(m, "ingest").Target != "other" {
			t.Fatal("the group of a resting row went on without it")
		}
		f.age(62 * time.Second)
		f.relay()
		f.relay()
		if rows := f.queues.take("q-ingest"); len(rows) != 2 || rows[0].Dedup != poison.Steps[0].ID+"/1" {
			t.Fatalf("sent %+v", rows)
		}
	})
}

func TestCommitterAndRelaysAtOnceLoseNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		const jobs = 60
		ctx, stop := context.WithCancel(f.ctx)
		var relays, submitters sync.WaitGroup
		for range 3 {
			relays.Go(func() {
				if err := f.s.Relay(ctx, f.queues); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range jobs {
			submitters.Go(func() {
				if _, err := f.s.Submit(f.ctx, f.submission(fmt.Sprint("talk", i))); err != nil {
					t.Error(err)
				}
			})
		}
		submitters.Wait()
		for deadline := time.Now().Add(20 * time.Second); f.unsent() > 0 && time.Now().Before(deadline); {
			f.relay()
		}
		stop()
		relays.Wait()
		sent := map[string]bool{}
		for _, m := range f.queues.all() {
			sent[m.Dedup] = true
		}
		if len(sent) != jobs {
			t.Fatalf("%d different messages, want %d", len(sent), jobs)
		}
		f.sound()
	})
}

// callsOf refuses one message and remembers the calls.
type callsOf struct {
	refused string
	calls   [][]job.Outgoing
}

func (c *callsOf) Send(_ context.Context, rows []job.Outgoing) []error {
	c.calls = append(c.calls, rows)
	errs := make([]error, len(rows))
	for i, r := range rows {
		if r.Dedup == c.refused {
			errs[i] = errBoom
		}
	}
	return errs
}

func TestLaterRowsOfAFailedFIFOGroupWaitAndNoTwoOfOneShareACall(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		var rows []job.Outgoing
		for i := range 6 {
			rows = append(rows, job.Outgoing{ID: fmt.Sprint(i), Queue: "q", FIFO: true, Group: fmt.Sprint(i % 2), Dedup: fmt.Sprint(i)})
		}
		to := &callsOf{refused: "0"}
		if err := f.s.Dispatch(f.ctx, to, rows); !errors.Is(err, errBoom) {
			t.Fatal(err)
		}
		got := ""
		for _, call := range to.calls {
			for _, r := range call {
				got += r.Dedup
			}
			got += " "
		}
		if got != "01 3 5 " {
			t.Errorf("calls of %s, want the other group whole and in order", got)
		}
	})
}

func TestACallHoldsTenRowsOfOneQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.submit(f.submission("talk"))
		p := job.Publication{Claim: f.claim("ingest"), FanOut: true, Next: next("compile"), Join: next("publish")}
		for range 25 {
			p.Parts = append(p.Parts, []byte(`{}`))
		}
		got, err := f.s.Publish(f.ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		if err := f.s.Dispatch(f.ctx, sizer(func(n int) { sizes = append(sizes, n) }), got.Outgoing); err != nil {
			t.Fatal(err)
		}
		if len(sizes) != 3 || sizes[0] != 10 || sizes[1] != 10 || sizes[2] != 5 {
			t.Fatalf("calls of %v", sizes)
		}
		if f.unsent() != 0 {
			t.Fatal("rows left")
		}
	})
}

type sizer func(int)

func (s sizer) Send(_ context.Context, rows []job.Outgoing) []error {
	s(len(rows))
	return make([]error, len(rows))
}

// silent never answers until it is told to stop.
type silent struct{}

func (silent) Send(ctx context.Context, rows []job.Outgoing) []error {
	<-ctx.Done()
	errs := make([]error, len(rows))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

func TestASilentQueueIsGivenUpWhenTheLeaseOfItsRowsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, open(t, freshURL(t, "sqlite"), job.Options{}))
		if _, err := f.s.Submit(f.ctx, f.submission("talk")); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		if err := f.s.Dispatch(f.ctx, silent{}, f.s.Handed()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		if took := time.Since(at); took != 10*time.Second {
			t.Fatalf("gave up after %v", took)
		}
		if f.unsent() != 1 {
			t.Fatal("the row is gone")
		}
	})
}

// halfSilent answers for one queue only.
type halfSilent struct{ *queues }

func (h halfSilent) Send(ctx context.Context, rows []job.Outgoing) []error {
	if rows[0].Queue == "q-silent" {
		return silent{}.Send(ctx, rows)
	}
	return h.queues.Send(ctx, rows)
}

func TestASilentQueueHoldsUpTheOthersForOneCallOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, open(t, freshURL(t, "sqlite"), job.Options{}))
		rows := make([]job.Outgoing, 95)
		for i := range rows {
			rows[i] = job.Outgoing{ID: fmt.Sprint(i), Queue: "q-silent"}
		}
		rows = append(rows, job.Outgoing{ID: "other", Queue: "q-other"})
		at := time.Now()
		if err := f.s.Dispatch(f.ctx, halfSilent{f.queues}, rows); err == nil {
			t.Fatal("all was sent")
		}
		if took := time.Since(at); took != 10*time.Second || len(f.queues.all()) != 1 {
			t.Fatalf("%d sent after %v", len(f.queues.all()), took)
		}
	})
}
