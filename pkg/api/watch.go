package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// lookEvery is how often the record is asked what has changed, once for all jobs and all who watch them.
const lookEvery = time.Second

const lookTimeout = 10 * time.Second

// maxWatchers are the streams of one tenant on one server: each costs its memory for as long as its client likes.
const maxWatchers = 2000

// watches looks at all watched jobs with one question, and at the keys of those who watch.
type watches struct {
	record Reader
	event  func(job.Job) event

	mu      sync.Mutex
	jobs    map[watched]*watch // guarded by mu
	streams map[string]int     // by tenant; guarded by mu
	stop    context.CancelFunc // of the look; nil while nobody watches; guarded by mu
	stopped chan struct{}      // closed when the look that stop ends has ended
}

// watched names a job by its tenant too: two tenants who name one job do not watch the same.
type watched struct{ tenant, id string }

// watch is one job and those who watch it.
type watch struct {
	seq      int64 // of the last event that was told; -1: none
	watchers map[*watcher]bool
}

// watcher is one stream. events holds the newest event only: older ones are of no use to who is slow.
type watcher struct {
	job    watched
	key    string // of the caller; empty: none
	events chan event
	barred chan struct{} // closed when the key has ended
}

func newWatches(r Reader, render func(job.Job) event) *watches {
	return &watches{record: r, event: render, jobs: map[watched]*watch{}, streams: map[string]int{}}
}

// join begins to watch; leave must be called. The first to join starts the look. A tenant with too many streams gets none.
func (w *watches) join(c caller, id string) (*watcher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams[c.tenant] >= maxWatchers {
		p := problem(http.StatusTooManyRequests, "watchers", "The account has %d streams of events open here; close some, or look at the jobs now and then.", maxWatchers)
		p.RetryAfter = time.Minute
		return nil, p
	}
	w.streams[c.tenant]++
	who := &watcher{job: watched{c.tenant, id}, key: c.key, events: make(chan event, 1), barred: make(chan struct{})}
	if w.jobs[who.job] == nil {
		w.jobs[who.job] = &watch{seq: -1, watchers: map[*watcher]bool{}}
	}
	w.jobs[who.job].watchers[who] = true
	if w.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		w.stop, w.stopped = stop, make(chan struct{})
		go w.look(ctx, w.stopped)
	}
	return who, nil
}

// leave ends watching. The last to leave ends the look and waits for its end.
func (w *watches) leave(who *watcher) {
	w.mu.Lock()
	if w.streams[who.job.tenant]--; w.streams[who.job.tenant] == 0 {
		delete(w.streams, who.job.tenant)
	}
	if job := w.jobs[who.job]; job != nil {
		if delete(job.watchers, who); len(job.watchers) == 0 {
			delete(w.jobs, who.job)
		}
	}
	if len(w.jobs) > 0 || w.stop == nil {
		w.mu.Unlock()
		return
	}
	stop, stopped := w.stop, w.stopped
	w.stop = nil
	w.mu.Unlock()
	stop()
	<-stopped
}

// look goes on until it is stopped. A record that does not answer is asked again at the next look.
func (w *watches) look(ctx context.Context, stopped chan struct{}) {
	defer close(stopped)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, cancel := context.WithTimeout(ctx, lookTimeout)
		changed, err := w.record.Changes(asked, w.all(), w.keys())
		cancel()
		if err == nil {
			w.tell(changed)
		}
	}
}

func (w *watches) all() []job.Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]job.Watched, 0, len(w.jobs))
	for name, watch := range w.jobs {
		list = append(list, job.Watched{Tenant: name.tenant, ID: name.id, Seq: watch.seq})
	}
	return list
}

func (w *watches) keys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := map[string]bool{}
	for _, watch := range w.jobs {
		for who := range watch.watchers {
			if who.key != "" {
				keys[who.key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// tell replaces what a slow watcher has not taken yet, and cuts off those whose keys have ended.
func (w *watches) tell(changed job.Changed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range changed.Jobs {
		watch := w.jobs[watched{j.Tenant, j.ID}]
		if watch == nil {
			continue // all have left meanwhile
		}
		now := w.event(j)
		watch.seq = now.seq
		for who := range watch.watchers {
			select {
			case <-who.events:
			default:
			}
			who.events <- now
		}
	}
	for _, watch := range w.jobs {
		for who := range watch.watchers {
			if who.key != "" && slices.Contains(changed.Keys, who.key) {
				delete(watch.watchers, who)
				close(who.barred)
			}
		}
	}
}
