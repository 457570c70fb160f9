package job_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// host is what the children of one test share: queues with visibility, a provider that counts, and a gate at every point.
type host struct {
	t        testing.TB
	socket   string
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	messages []*queued
	paid     map[string]int
	argument string
	gate     func(name, point string) bool // may the child go on, at a commit: with its answer; nil: yes
	stops    []*stop
	random   *rand.Rand
	chaos    bool          // some executions fail
	dice     int           // otherwise: what they come to
	lease    time.Duration // of the children's claims
	dedup    map[string]bool
	conns    []net.Conn
}

type queued struct {
	row      job.Outgoing
	receipt  string
	visible  time.Time
	receives int
}

type Received struct {
	Row      job.Outgoing
	Receipt  string
	Receives int
}

type Hidden struct {
	Receipt string
	After   time.Duration
}

// patience is for what a busy machine needs; only a test that fails waits so long.
const patience = 2 * time.Minute

func newHost(t testing.TB, seed uint64) *host {
	t.Helper()
	dir, err := os.MkdirTemp("", "host") // short: a socket's path may have 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, dice: dicePlain, lease: childLease, socket: filepath.Join(dir, "s"), paid: map[string]int{}, random: rand.New(rand.NewPCG(seed, 1)), dedup: map[string]bool{}}
	if h.listener, err = net.Listen("unix", h.socket); err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Host", &gateway{h}); err != nil {
		t.Fatal(err)
	}
	h.serving.Go(func() {
		for {
			conn, err := h.listener.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns = append(h.conns, conn)
			h.mu.Unlock()
			h.serving.Go(func() { server.ServeConn(conn) })
		}
	})
	t.Cleanup(func() {
		_ = h.listener.Close()
		h.mu.Lock()
		for _, c := range h.conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		h.serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return h
}

// gateway is the host as the children see it.
type gateway struct{ h *host }

func (g *gateway) At(where string, goOn *bool) error {
	name, point, _ := strings.Cut(where, "\x00")
	g.h.mu.Lock()
	gate := g.h.gate
	for _, s := range g.h.stops {
		if s.point == point && (s.victim == "" || s.victim == name) {
			gate = s.gate
		}
	}
	chaos := g.h.chaos
	g.h.mu.Unlock()
	*goOn = gate == nil || gate(name, point)
	if chaos && strings.HasPrefix(point, pointCommitted) {
		g.h.mu.Lock()
		defer g.h.mu.Unlock()
		*goOn = *goOn && g.h.random.IntN(20) > 0 // else the answer to the commit is lost
	}
	return nil
}

func (g *gateway) Send(rows []job.Outgoing, ok *bool) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	for _, r := range rows {
		if r.FIFO && g.h.dedup[r.Dedup] {
			continue
		}
		g.h.dedup[r.Dedup] = true
		g.h.messages = append(g.h.messages, &queued{row: r, receipt: fmt.Sprint(len(g.h.dedup), "-", r.ID, g.h.random.Int()), visible: time.Now().Add(r.Delay)})
	}
	*ok = true
	return nil
}

func (g *gateway) Receive(_ string, m *Received) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	now := time.Now()
	for _, q := range g.h.messages {
		if q.visible.After(now) || !strings.HasPrefix(q.row.Queue, "q-") {
			continue
		}
		q.visible = now.Add(g.h.lease + 200*time.Millisecond) // a little longer than the lease, as in production
		q.receives++
		*m = Received{q.row, q.receipt, q.receives}
		return nil
	}
	return nil
}

func (g *gateway) Delete(receipt string, ok *bool) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	for i, q := range g.h.messages {
		if q.receipt == receipt {
			g.h.messages = append(g.h.messages[:i], g.h.messages[i+1:]...)
			break
		}
	}
	*ok = true
	return nil
}

func (g *gateway) Hide(h Hidden, ok *bool) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	for _, q := range g.h.messages {
		if q.receipt == h.Receipt {
			q.visible = time.Now().Add(h.After)
		}
	}
	*ok = true
	return nil
}

func (g *gateway) Count(queue string, n *int64) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	for _, q := range g.h.messages {
		if q.row.Queue == queue {
			*n++
		}
	}
	return nil
}

// Pay is the effect that cannot be undone; the same identifier pays once, and dice decides what follows.
func (g *gateway) Pay(id string, dice *int) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	g.h.paid[id]++
	*dice = g.h.dice
	if g.h.chaos {
		*dice = g.h.random.IntN(dicePlain + 1)
	}
	return nil
}

func (g *gateway) Argument(_ string, arg *string) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	*arg = g.h.argument
	return nil
}

// rows returns the messages that the queues hold.
func (h *host) rows() []job.Outgoing {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rows []job.Outgoing
	for _, q := range h.messages {
		rows = append(rows, q.row)
	}
	return rows
}

// put sends rows as a relay would.
func (h *host) put(rows []job.Outgoing) {
	var ok bool
	_ = (&gateway{h}).Send(rows, &ok)
}

// process is one child.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

func (h *host) start(role, name, url string) *process {
	h.t.Helper()
	h.mu.Lock()
	lease := h.lease
	h.mu.Unlock()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childName+"="+name, childURL+"="+url, childSocket+"="+h.socket, childLeaseFor+"="+lease.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = io.Discard
	if *trace {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p
}

// signal waits until a process that is to stop stands still: on a busy machine its threads may run on for a while.
func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
	for s == syscall.SIGSTOP && p.runs() {
		<-time.After(time.Millisecond)
	}
}

// runs reports whether any thread of the process is neither stopped nor gone.
func (p *process) runs() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid)) // a constant pattern
	return slices.ContainsFunc(threads, func(file string) bool {
		raw, err := os.ReadFile(file)
		_, state, found := strings.Cut(string(raw), ") ")
		return err == nil && found && !strings.ContainsAny(state[:1], "TtZX")
	})
}

// kill ends the process and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done //nolint:errcheck // it was killed, which its exit status says
}

// stop is a point at which one child, or each if it has no name, waits until it is opened.
type stop struct {
	victim, point string
	there         chan string
	open          chan struct{}
}

func (s *stop) gate(name, _ string) bool {
	s.there <- name
	<-s.open
	return true
}

// stop gates children at a point: reached tells that one is there, release lets all go on.
func (h *host) stop(point string) (reached <-chan string, release func()) { return h.stopOf("", point) }

func (h *host) stopOf(victim, point string) (reached <-chan string, release func()) {
	s := &stop{victim: victim, point: point, there: make(chan string, 10), open: make(chan struct{})}
	h.mu.Lock()
	h.stops = append(h.stops, s)
	h.mu.Unlock()
	var once sync.Once
	release = func() {
		once.Do(func() {
			h.mu.Lock()
			h.stops = slices.DeleteFunc(h.stops, func(o *stop) bool { return o == s })
			h.mu.Unlock()
			close(s.open)
		})
	}
	h.t.Cleanup(release)
	return s.there, release
}

func (h *host) wait(ch <-chan string) string {
	h.t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		h.t.Fatal("no child came to the point")
		return ""
	}
}

// leases sets how long the claims of the children last that are started from now on.
func (h *host) leases(lease time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = lease
}

// roll says what executions come to from now on.
func (h *host) roll(dice int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dice = dice
}

// show makes all messages visible, as the end of their visibility would.
func (h *host) show() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.messages {
		m.visible = time.Time{}
	}
}

func (h *host) ended(p *process) {
	h.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			h.t.Fatalf("child: %v", err)
		}
	case <-time.After(patience):
		h.t.Fatal("the child does not end")
	}
}
