package pool_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// act is what a handler does with one execution.
type act struct {
	kind string // ok, fail, panic, goexit, defer, quarantine, reject
	took time.Duration
	deaf bool // does not look at its context
}

// event is what happens to one worker.
type event struct {
	at     time.Duration
	worker int
	what   string // stop, crash, cut off (from queue and record), sqs down, sqs slow, replies lost, record down, up
}

// chaos is one random history, drawn before it is played.
type chaos struct {
	fifo     bool
	bare     bool // without a record
	groups   int
	slots    int
	messages [][]act // per message, per execution; then ok
	events   []event
}

const longestAct = time.Minute

func drawChaos(t *rapid.T) chaos {
	acts := rapid.Custom(func(t *rapid.T) act {
		return act{
			kind: rapid.SampledFrom([]string{"ok", "ok", "ok", "fail", "fail", "panic", "goexit", "defer", "quarantine", "reject"}).Draw(t, "kind"),
			took: time.Duration(rapid.IntRange(0, int(longestAct/time.Millisecond)).Draw(t, "ms")) * time.Millisecond,
			deaf: rapid.IntRange(0, 9).Draw(t, "deaf") == 0,
		}
	})
	events := rapid.Custom(func(t *rapid.T) event {
		return event{
			at:     time.Duration(rapid.IntRange(0, 300_000).Draw(t, "ms")) * time.Millisecond,
			worker: rapid.IntRange(0, 1).Draw(t, "worker"),
			what:   rapid.SampledFrom([]string{"stop", "stop", "crash", "cut off", "cut off", "sqs down", "sqs slow", "sqs slow", "replies lost", "record down", "up", "up"}).Draw(t, "what"),
		}
	})
	return chaos{
		fifo:     rapid.Bool().Draw(t, "fifo"),
		bare:     rapid.Bool().Draw(t, "bare"),
		groups:   rapid.IntRange(1, 4).Draw(t, "groups"),
		slots:    rapid.IntRange(1, 12).Draw(t, "slots"),
		messages: rapid.SliceOfN(rapid.SliceOfN(acts, 0, 4), 1, 25).Draw(t, "messages"),
		events:   rapid.SliceOfN(events, 0, 8).Draw(t, "events"),
	}
}

// TestWhateverHappensNothingIsLostAndNothingRunsTwiceAtOnce plays random histories of two workers with handlers that fail in every
// way, stops, crashes and outages, and then lets a healthy worker finish.
func TestWhateverHappensNothingIsLostAndNothingRunsTwiceAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChaos(rt)
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = play(t, c) })
		if len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "\n"))
		}
	})
}

// world is where a history is played.
type world struct {
	*rig
	chaos
	book  *book
	hired []*mortal

	mu     sync.Mutex
	runs   map[int]int             // executions per message
	live   map[int]context.Context // of the execution that is under way
	index  map[string]int          // message id to its number, as they start
	last   map[int]int             // per group, the number that started last
	ended  map[int]bool            // by a handler, for good
	faults []string
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf("%v: ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

func play(t *testing.T, c chaos) []string {
	name := "q"
	if c.fifo {
		name = "q.fifo"
	}
	w := &world{rig: newRig(t, name, nil), chaos: c, book: newBook(30 * time.Second), runs: map[int]int{}, live: map[int]context.Context{}, index: map[string]int{}, last: map[int]int{}, ended: map[int]bool{}}
	w.book.policy = outcome.Policy{Waits: []time.Duration{10 * time.Second}}
	for i := range c.messages {
		w.send(fmt.Sprintf("g%d:%d", i%c.groups, i))
	}
	workers := []*mortal{w.hire(), w.hire()}
	for at := time.Duration(0); at <= 300*time.Second; at += 100 * time.Millisecond {
		for _, e := range c.events {
			if e.at/(100*time.Millisecond) == at/(100*time.Millisecond) {
				workers[e.worker] = w.happen(workers[e.worker], e.what)
			}
		}
		settle(100 * time.Millisecond)
	}
	for _, m := range workers {
		m.set("up")
		m.dismiss()
	}
	last := w.hire()
	for i := 0; i < 720 && w.visible()+w.hidden() > 0; i++ {
		settle(10 * time.Second)
	}
	last.dismiss()
	for _, m := range w.hired { // the crashed ones end by themselves
		<-m.done
	}
	settle(longestAct)
	w.check()
	return w.faults
}

// mortal is a worker that can lose the queue or the record, or everything at once.
type mortal struct {
	*rig
	*book
	w        *world
	registry *prometheus.Registry
	cancel   context.CancelFunc
	done     chan struct{}

	mu                  sync.Mutex
	noQueue, noBook     bool
	slow, lost          bool // both ways of every call to the queue take two seconds; its answers do not arrive
	crashed             bool
	starts              int
	reportedAbandonment bool
}

func (w *world) hire() *mortal {
	ctx, cancel := context.WithCancel(context.Background())
	m := &mortal{rig: w.rig, book: w.book, w: w, registry: prometheus.NewRegistry(), cancel: cancel, done: make(chan struct{})}
	cfg := pool.Config{
		QueueURL: w.queue, DeadLetterURL: w.dlq, Slots: w.slots, MaxStuck: 100, Ledger: flaky{m}, Policy: w.book.policy, Metrics: m.registry, Handler: m.handle,
		Visibility: 30 * time.Second, Beat: 10 * time.Second, Wait: time.Second, Drain: 5 * time.Second, Grace: time.Second, Settle: 3 * time.Second, TimeLimit: 50 * time.Second,
	}
	if w.bare {
		cfg.Ledger = nil
	}
	p, err := pool.New(faulty{m}, cfg)
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		defer close(m.done)
		_, err := p.Run(ctx)
		m.mu.Lock()
		m.reportedAbandonment = err != nil
		m.mu.Unlock()
	}()
	w.hired = append(w.hired, m)
	return m
}

// happen makes an event happen, and returns the worker that goes on.
func (w *world) happen(m *mortal, what string) *mortal {
	switch what {
	case "stop":
		m.dismiss()
		return w.hire()
	case "crash": // it reaches nothing any more, and its handlers change nothing
		m.set("crashed")
		m.cancel()
		return w.hire()
	}
	m.set(what)
	return m
}

func (m *mortal) set(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch what {
	case "sqs down":
		m.noQueue = true
	case "record down":
		m.noBook = true
	case "cut off":
		m.noQueue, m.noBook = true, true
	case "sqs slow":
		m.slow = true
	case "replies lost":
		m.lost = true
	case "up":
		m.slow, m.lost = false, false
		m.noQueue, m.noBook = m.crashed, m.crashed
	case "crashed":
		m.crashed, m.noQueue, m.noBook = true, true, true
	}
}

// dismiss stops the worker, and checks that it accounted for all that it received.
func (m *mortal) dismiss() {
	stopped := time.Now()
	m.cancel()
	<-m.done
	if took := time.Since(stopped); took > 9*time.Second {
		m.w.fault("a stop took %v", took)
	}
	got := gather(m.w.T, m.registry)
	notStarted := 0.0
	for name, n := range got {
		if strings.HasPrefix(name, "not_started_total") {
			notStarted += n
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if received := got["messages_total{}"] - got["duplicate_receives_total{}"]; received != notStarted+float64(m.starts) && !m.reportedAbandonment {
		m.w.fault("received %v, started %d, not started %v", received, m.starts, notStarted)
	}
}

func (m *mortal) down(queue bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if queue && m.noQueue || !queue && m.noBook {
		return errIll
	}
	return nil
}

func (m *mortal) handle(ctx context.Context, msg pool.Message) error {
	_, number, _ := strings.Cut(msg.Body, ":")
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	a := m.w.begin(ctx, msg, i)
	m.mu.Lock()
	m.starts++
	m.mu.Unlock()
	defer m.w.end(ctx, i)
	if a.deaf {
		pause(a.took)
	} else if err := sleeper(a.took)(ctx, msg); err != nil {
		return err
	}
	switch a.kind {
	case "fail":
		return errNoLuck
	case "panic":
		panic("no luck")
	case "goexit":
		runtime.Goexit()
	case "defer":
		return outcome.Defer(5*time.Second, "busy")
	case "quarantine":
		return outcome.Quarantine("bad", nil)
	case "reject":
		m.w.done(i)
		return outcome.Reject("bad", "It is bad.")
	}
	m.w.done(i)
	return nil
}

func (w *world) done(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[i] = true
}

// begin checks what must hold as a message starts, and returns what to do with it.
func (w *world) begin(ctx context.Context, msg pool.Message, i int) act {
	w.mu.Lock()
	if other := w.live[i]; other != nil && other.Err() == nil {
		w.faults = append(w.faults, fmt.Sprintf("message %d runs twice at once", i))
	}
	w.live[i] = ctx
	w.index[msg.ID] = i
	group := i % w.groups
	if w.fifo && w.last[group] > i {
		w.faults = append(w.faults, fmt.Sprintf("message %d started after %d of its group", i, w.last[group]))
	}
	w.last[group] = max(i, w.last[group])
	n := w.runs[i]
	w.runs[i]++
	ids := map[int]string{}
	for id, i := range w.index {
		ids[i] = id
	}
	w.mu.Unlock()
	if w.fifo && !w.bare {
		for earlier := i - w.groups; earlier >= 0; earlier -= w.groups {
			if !w.book.ended(ids[earlier]) {
				w.fault("message %d started before %d of its group ended", i, earlier)
			}
		}
	}
	if n < len(w.messages[i]) {
		return w.messages[i][n]
	}
	return act{kind: "ok"}
}

func (w *world) end(ctx context.Context, i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live[i] == ctx {
		delete(w.live, i)
	}
}

func (b *book) ended(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[id]
	return p != nil && (p.done || p.dead)
}

// check is what must hold at the end of every history.
func (w *world) check() {
	if v, h := w.visible(), w.hidden(); v+h > 0 {
		w.fault("%d visible and %d hidden after the end", v, h)
	}
	if w.bare {
		w.checkBare()
		return
	}
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	if len(w.book.pages) != len(w.messages) {
		w.fault("%d of %d messages were ever claimed", len(w.book.pages), len(w.messages))
	}
	for id, p := range w.book.pages {
		counted := 0
		for _, kind := range p.ends {
			if kind != outcome.KindDefer && kind != outcome.KindInterrupted && kind != outcome.KindLost {
				counted++
			}
		}
		i := w.index[id]
		switch {
		case !p.done && !p.dead:
			w.fault("message %d has no end: %+v", i, *p)
		case p.attempts != counted || counted > 3:
			w.fault("message %d has %d attempts after %v", i, p.attempts, p.ends)
		}
	}
}

// checkBare is check without a record: a message has ended by a handler, or lies among the dead letters.
func (w *world) checkBare() {
	for letters := w.peek(w.dlq); len(letters) > 0; letters = w.peek(w.dlq) {
		for _, m := range letters {
			_, number, _ := strings.Cut(*m.Body, ":")
			i, err := strconv.Atoi(number)
			if err != nil {
				w.fault("dead letter %q", *m.Body)
			}
			w.done(i)
		}
	}
	for i := range w.messages {
		if !w.ended[i] {
			w.fault("message %d has no end after %d runs", i, w.runs[i])
		}
	}
}

// faulty is a mortal's queue, and flaky its record.
type (
	faulty struct{ *mortal }
	flaky  struct{ *mortal }
)
