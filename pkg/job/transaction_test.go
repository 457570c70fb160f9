package job_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Each of these stops a process inside a transaction, with all of it decided and written, or while it waits for one.

// waiting waits until the child waits for a lock that somebody else holds.
func (f *fixture) waiting(p *process) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); !f.waits(p); {
		if time.Now().After(deadline) {
			f.t.Fatal("the child does not wait for a lock")
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (f *fixture) waits(p *process) bool {
	if f.s.Postgres() {
		n, err := f.s.Int(f.ctx, `SELECT COUNT(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE NOT l.granted AND a.datname = current_database()`)
		if err != nil {
			f.t.Fatal(err)
		}
		return n > 0
	}
	locks, err := os.ReadFile("/proc/locks") // "1: -> FLOCK ADVISORY WRITE 4711 ..." is a wait
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "->") && strings.Contains(line, fmt.Sprintf(" %d ", p.cmd.Process.Pid)) {
			return true
		}
	}
	return false
}

func TestAPublicationThatBeganBeforeItsLeaseEndedIsJudgedWhenItsTurnComes(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
		j := f.give(h, f.submission("talk"))
		if f.s.Postgres() {
			url += "&lock_timeout=30s"
		}
		h.leases(5 * time.Second)
		reached, release := h.stop(pointWorked)
		p := h.start("one", "slow", url)
		h.wait(reached)
		locked, let, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() { held <- f.s.Hold(f.ctx, j.Steps[0].ID, locked, let) }()
		<-locked
		release()
		f.waiting(p)
		if n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM step WHERE lease_until > now_us()"); err != nil || n != 1 {
			t.Fatalf("the lease had ended before the publication began: %v", err)
		}
		for n := int64(1); n > 0; {
			var err error
			if n, err = f.s.Int(f.ctx, "SELECT COUNT(*) FROM step WHERE lease_until > now_us()"); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Millisecond)
		}
		close(let)
		if err := <-held; err != nil {
			t.Fatal(err)
		}
		h.ended(p)
		got := f.job(j.ID)
		if s := got.Steps[0]; len(got.Steps) != 1 || s.State != job.Queued || s.Attempts != 0 || s.Crashes != 0 || s.History[0].Reason != job.ReasonLapsed {
			t.Fatalf("steps %+v", got.Steps)
		}
		f.soundWith(h)
		if end := f.finish(h, j.ID); end.State != job.Completed {
			t.Fatalf("job %+v", end)
		}
		f.soundWith(h)
	})
}

// A process that is frozen inside a transaction would hold SQLite's only write lock, which nobody can take from it. Postgres ends the
// transaction.
func TestAnOwnerFrozenInsideItsPublicationHasNotPublishedOnPostgres(t *testing.T) {
	t.Parallel()
	url := freshURL(t, "postgres")
	f, h := newFixture(t, open(t, url, job.Options{})), newHost(t, 1)
	j := f.give(h, f.submission("talk"))
	row := h.rows()[0]
	reached, release := h.stop(pointCommitting + doingPublish)
	p := h.start("one", "frozen", url+"&idle_in_transaction_session_timeout=1s")
	h.wait(reached)
	p.signal(syscall.SIGSTOP)
	release()
	f.age(time.Hour) // waits for the frozen one's locks
	heir := f.claimRow(row, "ingest")
	p.signal(syscall.SIGCONT)
	<-p.done //nolint:errcheck // it is told that it does not own the step, or that it cannot know
	if got := f.job(j.ID); len(got.Steps) != 1 || got.Steps[0].Worker != "w1" || got.Steps[0].Crashes != 1 {
		t.Fatalf("steps %+v", got.Steps)
	}
	f.accepted(job.Publication{Claim: heir})
	f.state(j.ID, job.Completed)
	f.soundWith(h)
}

// joins is how often the parts of a job came together.
func joins(j job.Job) int {
	n := 0
	for _, s := range j.Steps {
		if s.Stage == "publish" {
			n++
		}
	}
	return n
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
		if end := f.finish(h, j.ID); end.State != job.Completed || joins(end) != 1 {
			t.Fatalf("%d joins, job %s", joins(end), end.State)
		}
		f.soundWith(h)
	})
}

func TestOfTheLastTwoPartsOneMayDieInItsCommitWhileTheOtherWaits(t *testing.T) {
	for _, point := range []string{pointCommitting + doingPublish, pointCommitted + doingPublish} {
		t.Run(point, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
				j := f.submit(f.submission("talk"))
				f.fanOut("ingest", 2)
				f.hand(h)
				worked, goOn := h.stopOf("other", pointWorked)
				inside, release := h.stopOf("victim", point)
				other := h.start("one", "other", url)
				h.wait(worked)
				victim := h.start("one", "victim", url)
				h.wait(inside)
				goOn()
				if strings.HasPrefix(point, pointCommitting) {
					f.waiting(other)
				}
				victim.kill()
				release()
				h.ended(other)
				f.age(time.Hour)
				h.show()
				if end := f.finish(h, j.ID); end.State != job.Completed || joins(end) != 1 {
					t.Fatalf("%d joins, job %s", joins(end), end.State)
				}
				f.soundWith(h)
			})
		})
	}
}

func TestARefundAttemptedTwiceIsPaidOnceWhereverTheFirstIsKilled(t *testing.T) {
	for _, point := range []string{pointCommitting + doingEnd, pointCommitted + doingEnd, pointEnded, pointSent} {
		t.Run(point, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, h *host, url string) {
				j := f.submit(f.submission("talk"))
				f.fanOut("ingest", 2)
				f.hand(h)
				h.roll(diceBug) // each part kills the job
				reached, release := h.stopOf("victim", point)
				victim := h.start("one", "victim", url)
				h.wait(reached)
				victim.kill()
				release()
				f.age(time.Hour)
				h.show()
				h.ended(h.start("one", "other", url))
				h.ended(h.start("one", "third", url))
				f.state(j.ID, job.Failed)
				if n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM account_entry WHERE kind = 'refund'"); err != nil || n != 1 || f.balance() != 0 {
					t.Fatalf("%d refunds, balance %d, %v", n, f.balance(), err)
				}
				for _, s := range f.job(j.ID).Steps[1:] {
					if s.State != job.Failed {
						t.Errorf("part %+v", s)
					}
				}
				f.soundWith(h)
			})
		})
	}
}

func TestARedriveInterruptedAnywhereRevivesTheStepOnce(t *testing.T) {
	for _, point := range []string{pointCommitting + doingRedrive, pointCommitted + doingRedrive, pointRedriven, pointSent, pointMarked} {
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
				err := f.s.Redrive(f.ctx, j.ID, "again")
				if undone := strings.HasPrefix(point, pointCommitting); undone && err != nil || !undone && !errors.Is(err, job.ErrEnded) {
					t.Fatalf("second redrive: %v", err)
				}
				if err := f.s.Redrive(f.ctx, j.ID, "again"); !errors.Is(err, job.ErrEnded) {
					t.Fatalf("third redrive: %v, want ErrEnded", err)
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
