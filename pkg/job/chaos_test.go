package job_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

var (
	kills = flag.Int("recovery.kills", 64, "random kills and freezes, over both stores")
	seed  = flag.Uint64("recovery.seed", 0, "of the random kills; 0: by the clock")
	trace = flag.Bool("recovery.trace", false, "show what the children say")
)

const (
	chaosWorkers = 3
	chaosJobs    = 4 // unfinished at any time while kills go on
)

// chaos kills and freezes children at points and moments that a seed chooses, and starts them again.
type chaos struct {
	h     *host
	url   string
	seats map[string]*seat
	left  int
	all   int
}

// seat is a child's place: the process in it changes.
type seat struct {
	role string
	p    *process
}

func TestRandomKillsAndFreezesLoseAndDoubleNothing(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			t.Logf("-recovery.seed=%d", s)
			url := freshURL(t, kind)
			f := newFixture(t, open(t, url, job.Options{}))
			h := newHost(t, s)
			h.mu.Lock()
			h.chaos = true
			h.mu.Unlock()
			c := &chaos{h: h, url: url, seats: map[string]*seat{}, left: (*kills + 1) / 2, all: (*kills + 1) / 2}
			c.run(f, s)
		})
	}
}

func (c *chaos) run(f *fixture, seed uint64) {
	c.seats["server"] = &seat{role: "server"}
	for i := range chaosWorkers {
		c.seats[fmt.Sprint("worker", i)] = &seat{role: "worker"}
	}
	names := []string{"server"}
	for i := range chaosWorkers {
		names = append(names, fmt.Sprint("worker", i))
	}
	for _, n := range names {
		c.seats[n].p = c.h.start(c.seats[n].role, n, c.url)
	}
	defer func() {
		for _, s := range c.seats {
			s.p.kill()
		}
	}()
	random := rand.New(rand.NewPCG(seed, 2))
	var jobs []string
	open := 0
	for c.left > 0 {
		if open < chaosJobs {
			j, err := f.s.Submit(f.ctx, f.submission(fmt.Sprint("talk", len(jobs))))
			if err != nil {
				f.t.Fatal(err)
			}
			jobs = append(jobs, j.ID)
		}
		c.strike(random, names)
		open = c.unfinished(f)
		f.pump(nil)
		f.hand(c.h)
	}
	c.settle(f)
	c.ask(f, jobs)
}

// strike interrupts one child: at the next named point it comes to, or after a random time wherever it is.
func (c *chaos) strike(random *rand.Rand, names []string) {
	victim := names[random.IntN(len(names))]
	if random.IntN(2) == 0 {
		<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
		c.interrupt(random, victim, !c.sqlite())
		return
	}
	skip := random.IntN(8)
	there, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inside := false // a transaction
	c.h.mu.Lock()
	c.h.gate = func(name, point string) bool {
		c.h.mu.Lock()
		hit := name == victim && skip == 0
		if name == victim {
			skip--
		}
		c.h.mu.Unlock()
		if hit {
			once.Do(func() {
				inside = strings.HasPrefix(point, pointCommitting)
				close(there)
			})
			<-open
		}
		return true
	}
	c.h.mu.Unlock()
	select {
	case <-there:
		c.interrupt(random, victim, !inside || !c.sqlite())
	case <-time.After(500 * time.Millisecond): // it had nothing to do
	}
	c.h.mu.Lock()
	c.h.gate = nil
	c.h.mu.Unlock()
	close(open)
}

// interrupt kills the child and starts another in its seat, or freezes it for longer than its lease. A process frozen
// inside a transaction would hold SQLite's only write lock, which no timeout takes from it.
func (c *chaos) interrupt(random *rand.Rand, name string, mayFreeze bool) {
	c.left--
	if done := c.all - c.left; done%25 == 0 {
		c.h.t.Logf("%d of %d interrupted", done, c.all)
	}
	s := c.seats[name]
	if random.IntN(4) > 0 || s.role == "server" || !mayFreeze {
		s.p.kill()
		s.p = c.h.start(s.role, name, c.url)
		return
	}
	frozen := s.p
	frozen.signal(syscall.SIGSTOP)
	time.AfterFunc(childLease+300*time.Millisecond, func() { frozen.signal(syscall.SIGCONT) })
}

func (c *chaos) sqlite() bool { return strings.HasPrefix(c.url, "sqlite:") }

func (c *chaos) unfinished(f *fixture) int {
	n, err := f.s.Int(f.ctx, "SELECT COUNT(*) FROM job WHERE state IN ('active', 'waiting')")
	if err != nil {
		f.t.Fatal(err)
	}
	return int(n)
}

// settle lets the children finish.
func (c *chaos) settle(f *fixture) {
	for deadline := time.Now().Add(patience); c.unfinished(f) > 0; {
		f.lapse()
		if time.Now().After(deadline) {
			page, _, _ := f.s.Jobs(f.ctx, job.Filter{Tenant: "acme", State: job.Queued})
			f.t.Fatalf("jobs do not end: %+v", page)
		}
		<-time.After(500 * time.Millisecond)
	}
}

// ask puts the questions once everything is still.
func (c *chaos) ask(f *fixture, jobs []string) {
	f.soundWith(c.h)
	for _, id := range jobs {
		j := f.job(id)
		if j.State != job.Completed || len(j.Steps) != 5 {
			f.t.Errorf("job %+v", j)
		}
		for _, s := range j.Steps {
			done := 0
			for _, a := range s.History {
				if a.Outcome == "done" {
					done++
				}
			}
			if done != 1 {
				f.t.Errorf("step %s was published %d times", s.ID, done)
			}
		}
	}
	effects, err := f.s.Int(context.WithoutCancel(f.ctx), "SELECT COUNT(*) FROM effect WHERE state = 'done'")
	if err != nil {
		f.t.Fatal(err)
	}
	c.h.mu.Lock()
	paid := len(c.h.paid)
	c.h.mu.Unlock()
	if want := 5 * len(jobs); int(effects) != want || paid != want {
		f.t.Errorf("%d effects done and %d identifiers paid, want %d of each", effects, paid, want)
	}
}
