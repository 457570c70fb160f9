package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	lookEvery   = time.Second / 4  // how often a watched job is asked for its number, however many watch it
	takeTimeout = 30 * time.Second // for one event to be taken by the client
	sayAlive    = 15 * time.Second // a comment on a quiet stream, so that proxies and clients see that it lives
)

// events streams the job as server-sent events: each is the whole job, its id the job's sequence number. A client that
// reconnects with Last-Event-ID gets the present state if that has moved on; nothing can be lost, as nothing is a difference.
// The stream ends after the job has.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	tenant := callerOf(r.Context()).tenant
	changes, leave := s.watches.join(r.Context(), tenant, id) // before the first read: a change after it is told
	defer leave()
	j, err := s.cfg.Record.Job(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	// A client that takes nothing is gone. Without a connection, as in some tests, there is nothing to bound.
	bound := func() { _ = control.SetWriteDeadline(time.Now().Add(takeTimeout)) }
	seen := r.Header.Get("Last-Event-ID")
	alive := time.NewTicker(sayAlive)
	defer alive.Stop()
	for {
		bound()
		if fmt.Sprint(j.Seq) != seen || j.State.Ended() {
			seen = fmt.Sprint(j.Seq)
			err = s.send(w, j)
		}
		if err == nil {
			err = control.Flush()
		}
		if err != nil || j.State.Ended() {
			return nil // gone, or done
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.stopping:
			return nil
		case <-alive.C:
			bound()
			_, err = fmt.Fprint(w, ":\n\n")
		case j = <-changes:
		}
	}
}

func (s *Server) send(w http.ResponseWriter, j job.Job) error {
	text, err := json.Marshal(s.placed(j))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "id: %d\nevent: job\ndata: %s\n\n", j.Seq, text)
	return err
}

// watches looks at each watched job once for all who watch it, and reads it when its number has grown.
type watches struct {
	record Reader

	mu   sync.Mutex
	jobs map[string]*watch // by job id; guarded by mu
}

// watch is one job and its watchers, each a channel that holds the newest state only.
type watch struct {
	cancel   context.CancelFunc
	ended    chan struct{} // closed when nobody looks any more
	watchers map[chan job.Job]bool
}

func newWatches(r Reader) *watches { return &watches{record: r, jobs: map[string]*watch{}} }

// join returns the states of a job from now on; leave must be called. The last to leave ends the reading.
func (w *watches) join(ctx context.Context, tenant, id string) (<-chan job.Job, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.jobs[id]
	if watched == nil {
		look, cancel := context.WithCancel(context.WithoutCancel(ctx))
		watched = &watch{cancel: cancel, ended: make(chan struct{}), watchers: map[chan job.Job]bool{}}
		w.jobs[id] = watched
		go w.look(look, tenant, id, watched)
	}
	states := make(chan job.Job, 1)
	watched.watchers[states] = true
	return states, func() { w.leave(id, watched, states) }
}

func (w *watches) leave(id string, watched *watch, states chan job.Job) {
	w.mu.Lock()
	delete(watched.watchers, states)
	last := len(watched.watchers) == 0
	if last {
		delete(w.jobs, id)
	}
	w.mu.Unlock()
	if last {
		watched.cancel()
		<-watched.ended
	}
}

// look goes on until nobody watches the job. A record that does not answer is asked again at the next look.
func (w *watches) look(ctx context.Context, tenant, id string, watched *watch) {
	defer close(watched.ended)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if seq, err := w.record.Seq(ctx, tenant, id); err != nil || seq == told {
			continue
		}
		if j, err := w.record.Job(ctx, tenant, id); err == nil {
			told = j.Seq
			w.tell(watched, j)
		}
	}
}

// tell replaces what a slow watcher has not taken yet: only the newest state is of use.
func (w *watches) tell(watched *watch, j job.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for states := range watched.watchers {
		select {
		case <-states:
		default:
		}
		states <- j
	}
}
