// Package localecs runs worker binaries on one machine the way ECS runs them on a cluster: as separate processes with a
// task agent beside each (scale-in protection, task metadata v4), SIGTERM and a stop timeout, and a replacement when one dies.
//
// Promised: a worker is told of its parent's death by the end of file on descriptor 3, never by a signal; a dead worker is
// replaced within two seconds, later ones with exponential backoff; a protected task is not stopped by a scale-in.
// Not promised: placement, health checks, limits on memory or CPU. Called by `fleet up`.
package localecs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// Bounds and pace of the supervisor.
const (
	MaxCount        = 64               // tasks of one service
	firstWait       = time.Second / 2  // before the first restart
	maxWait         = 30 * time.Second // before any later restart
	healthyAfter    = time.Minute      // a life this long forgets earlier deaths
	agentReadBudget = 5 * time.Second  // for a request to the task agent
)

// ErrUnknownService is returned for a service that the cluster was not given.
var ErrUnknownService = errors.New("unknown service")

// Service is one worker binary and how many of it run.
type Service struct {
	Name        string        // names its tasks, NAME-1 and on, and their log files
	Binary      string        // path of the executable; it gets no arguments
	Env         []string      // NAME=value; all of the environment except what the cluster adds per task
	Count       int           // tasks wanted, 0 to MaxCount
	StopTimeout time.Duration // from SIGTERM to SIGKILL; must be positive
}

// Validate names the field that cannot work, its value and its bound.
func (s Service) Validate() error {
	if s.Name == "" || s.Binary == "" {
		return fmt.Errorf("service %q: name and binary must be given", s.Name)
	}
	if s.Count < 0 || s.Count > MaxCount {
		return fmt.Errorf("service %s: count %d must be 0 to %d", s.Name, s.Count, MaxCount)
	}
	if s.StopTimeout <= 0 {
		return fmt.Errorf("service %s: stop timeout %v must be positive", s.Name, s.StopTimeout)
	}
	return nil
}

// Death is the end of a worker that nobody asked to stop.
type Death struct {
	Task    string        // such as compile-1
	Cause   error         // how the process ended, or why it could not start; nil when it exited with 0
	Restart time.Duration // wait before its replacement
	InARow  int           // deaths since it last lived for a minute, this one counted
	Tail    []string      // last lines it wrote in this life
	LogFile string
}

// Config is what a Cluster needs.
type Config struct {
	Services []Service
	LogDir   string      // existing folder for the workers' output, one bounded file per task name
	TempDir  string      // existing folder; each process gets one in it as TMPDIR, removed when it is gone
	Died     func(Death) // called from one goroutine per task; nil: deaths are only repaired
}

// Task is one running worker as an operator sees it.
type Task struct {
	Service   string
	Name      string
	PID       int
	Protected bool
}

// Cluster keeps the wanted number of tasks of each service running. Its methods are safe for concurrent use.
type Cluster struct {
	cfg   Config
	agent string // base URL of the task agent, set before the first task starts

	mu       sync.Mutex
	keepers  sync.WaitGroup
	life     context.Context // of all keepers; nil while not running
	services map[string]*service
	tasks    map[string]*task // by the secret token in the URLs of its agent
	overdue  []error          // one for each task that was killed at its stop timeout
}

// service: Count and slots are guarded by Cluster.mu, the rest is fixed.
type service struct {
	Service
	slots map[int]*slot // by ordinal, from 1
}

// New checks the configuration; nothing is started.
func New(cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg, services: map[string]*service{}, tasks: map[string]*task{}}
	for _, s := range cfg.Services {
		if err := s.Validate(); err != nil {
			return nil, err
		}
		if c.services[s.Name] != nil {
			return nil, fmt.Errorf("service %s: given twice", s.Name)
		}
		if _, err := os.Stat(s.Binary); err != nil {
			return nil, fmt.Errorf("service %s: find its binary: %w", s.Name, err)
		}
		c.services[s.Name] = &service{Service: s, slots: map[int]*slot{}}
	}
	return c, nil
}

// Run starts the tasks and keeps them until ctx ends, then stops them all at once: SIGTERM, and SIGKILL to those that are
// still there after their stop timeout, which the error names. It returns when no process is left. It may be called once.
func (c *Cluster) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the task agent: %w", err)
	}
	c.agent = "http://" + listener.Addr().String()
	server := &http.Server{Handler: c.handler(), ReadTimeout: agentReadBudget}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Close below; a worker fails open when its agent is away
	}()

	c.mu.Lock()
	c.life = ctx
	for _, s := range c.services {
		c.settle(s)
	}
	c.mu.Unlock()

	<-ctx.Done()
	c.mu.Lock()
	c.life = nil // no keeper is added from here on, so the wait is for all of them
	c.mu.Unlock()
	c.keepers.Wait()
	_ = server.Close()
	<-served
	return errors.Join(c.overdue...)
}

// Scale sets the wanted number of tasks. Surplus tasks are stopped newest first; those under protection are left until it
// ends or expires.
func (c *Cluster) Scale(name string, count int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.services[name]
	if s == nil {
		return fmt.Errorf("%w %q", ErrUnknownService, name)
	}
	wanted := s.Service
	wanted.Count = count
	if err := wanted.Validate(); err != nil {
		return err
	}
	s.Count = count
	c.settle(s)
	return nil
}

// settle adds missing slots and retires surplus ones. The caller holds c.mu.
func (c *Cluster) settle(s *service) {
	if c.life == nil {
		return
	}
	for ordinal := 1; s.active() < s.Count; ordinal++ {
		if s.slots[ordinal] == nil {
			c.open(s, ordinal)
		}
	}
	now := time.Now()
	for _, ordinal := range slices.Backward(slices.Sorted(maps.Keys(s.slots))) {
		slot := s.slots[ordinal]
		if s.active() > s.Count && !slot.retired && !slot.protected(now) {
			slot.retired = true
			slot.retire()
		}
	}
}

// active counts the slots that are not on their way out.
func (s *service) active() int {
	n := 0
	for _, slot := range s.slots {
		if !slot.retired {
			n++
		}
	}
	return n
}

// Tasks lists the running processes in no particular order.
func (c *Cluster) Tasks() []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var list []Task
	for _, t := range c.tasks {
		list = append(list, Task{Service: t.service.Name, Name: t.slot.name, PID: t.pid, Protected: t.protected(now)})
	}
	return list
}

// Kill sends SIGKILL to every running worker: for an operator who will not wait for the drain that Run is in.
func (c *Cluster) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tasks {
		t.kill()
	}
}
