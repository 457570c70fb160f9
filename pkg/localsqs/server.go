package localsqs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of Options.
const (
	DefaultRegion        = "us-east-1"
	DefaultAccount       = "000000000000"
	DefaultInFlightLimit = 120_000
)

// Options configure a server. The zero value is a server in memory that accepts every caller.
type Options struct {
	// Region and Account appear in ARNs and queue URLs; empty means DefaultRegion and DefaultAccount.
	Region  string
	Account string

	// InFlightLimit is how many messages of one queue may be in flight; 0 means DefaultInFlightLimit. At the limit a
	// standard queue answers a short poll with OverLimit, and otherwise receives find nothing.
	InFlightLimit int

	// KeepCancelledPolls imitates a trap of real SQS: a long poll whose client has gone goes on to its end, and a message
	// that arrives meanwhile is hidden although nobody got it. By default a client that goes away loses nothing.
	KeepCancelledPolls bool

	// Credentials are the secret keys by access key id that requests must be signed with; empty accepts every request,
	// signed or not.
	Credentials map[string]string

	// Faults go wrong from the start; see also Server.SetFaults.
	Faults Faults
}

// Validate reports the first field that cannot work, with its value and bound.
func (o Options) Validate() error {
	if o.InFlightLimit < 0 {
		return fmt.Errorf("InFlightLimit is %d, want at least 0", o.InFlightLimit)
	}
	if err := o.Faults.Validate(); err != nil {
		return fmt.Errorf("Faults: %w", err)
	}
	return nil
}

// Server is an SQS-compatible server. It is safe for concurrent use; create it with New.
type Server struct {
	opts    Options
	journal *journal
	faults  faultPlan
	closing chan struct{} // closed by Close

	mu       sync.Mutex // guards all below and every queue; never held while blocking
	queues   map[string]*queue
	deleted  map[string]int64 // when a queue of that name was deleted, unix nanoseconds
	touched  []*queue         // queues whose waiters are to be served before mu is released
	latest   int64            // the last value of now
	closed   bool
	draining bool // long polls end at once

	requests map[requestKey]int64
	replayed map[uint64]*queue // while Open reads the journal
}

// New returns a running server that keeps everything in memory. Close it to end its long polls and timers.
// It panics if opts.Validate fails.
func New(opts Options) *Server {
	if err := opts.Validate(); err != nil {
		panic(fmt.Sprintf("localsqs: %v", err))
	}
	opts.Region = cmp.Or(opts.Region, DefaultRegion)
	opts.Account = cmp.Or(opts.Account, DefaultAccount)
	opts.InFlightLimit = cmp.Or(opts.InFlightLimit, DefaultInFlightLimit)
	s := &Server{opts: opts, closing: make(chan struct{}), queues: map[string]*queue{}, deleted: map[string]int64{}, requests: map[requestKey]int64{}}
	_ = s.SetFaults(opts.Faults) // valid, as checked above
	return s
}

// Region returns the AWS region that the server pretends to be in.
func (s *Server) Region() string { return s.opts.Region }

// Close ends every long poll and timer. Later requests are answered with 503.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	for _, q := range s.queues {
		q.end(errClosed())
		q.stopTasks()
	}
	s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	return errors.Join(s.persist(), s.journal.close())
}

func errClosed() *apiError { return errUnavailable("The server is closed.") }

// end answers everyone who waits on the queue and stops its timers.
func (q *queue) end(err error) {
	for _, w := range q.waiters.all {
		w.finish(nil, err)
	}
	q.waiters.all = nil
	if q.waiters.timer != nil {
		q.waiters.timer.Stop()
	}
}

// now reads the wall clock, which never runs backwards for this server. One call per operation, under mu.
func (s *Server) now() int64 {
	s.latest = max(s.latest, time.Now().UnixNano())
	return s.latest
}

// touch marks a queue as possibly having something for its waiters.
func (s *Server) touch(q *queue) {
	if len(q.waiters.all) > 0 {
		s.touched = append(s.touched, q)
	}
}

// serve wakes the waiters of q and of every queue that got messages from it on the way.
func (s *Server) serve(now int64, q *queue) {
	s.touch(q)
	for len(s.touched) > 0 {
		next := s.touched[0]
		s.touched = s.touched[1:]
		next.serve(now)
	}
}

func (s *Server) arn(name string) string {
	return fmt.Sprintf("arn:aws:sqs:%s:%s:%s", s.opts.Region, s.opts.Account, name)
}

func (s *Server) byARN(arn string) *queue {
	name, ok := strings.CutPrefix(arn, s.arn(""))
	if !ok {
		return nil
	}
	return s.queues[name]
}

// byURL finds a queue by the path of its URL; host and port may be any under which the client reaches the server.
func (s *Server) byURL(url string) (*queue, error) {
	if url == "" {
		return nil, missingParameter("QueueUrl")
	}
	rest, name := cutLast(url)
	_, account := cutLast(rest)
	q := s.queues[name]
	if q == nil || account != s.opts.Account {
		return nil, errNoQueue()
	}
	return q, nil
}

func cutLast(path string) (before, after string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

func (s *Server) sortedQueues() []*queue {
	return slices.SortedFunc(maps.Values(s.queues), func(a, b *queue) int { return strings.Compare(a.name, b.name) })
}

func newQueueID() uint64 { return rand.Uint64() }
