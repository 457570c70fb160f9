package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	sayAlive = 15 * time.Second // a comment on a quiet stream, so that proxies and clients see that it lives
)

// event is a job's state as it is sent, made once for all who watch it.
type event struct {
	seq   int64
	ended bool
	text  []byte
}

func (s *Server) event(j job.Job) event {
	var text bytes.Buffer
	value, err := json.Marshal(s.placed(j))
	if err != nil {
		panic(fmt.Sprintf("api: encode a job: %v", err)) // a job is strings, numbers and times
	}
	fmt.Fprintf(&text, "id: %d\nevent: job\ndata: %s\n\n", j.Seq, value)
	return event{seq: j.Seq, ended: j.State.Ended(), text: text.Bytes()}
}

// events streams the job as server-sent events: each is the whole job, its id the job's sequence number. A client that
// reconnects with Last-Event-ID gets the present state if that has moved on; nothing can be lost, as nothing is a
// difference. A client that takes nothing is cut off, and loses nothing either. The stream ends after the job has, and
// with the caller's key.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	c := callerOf(r.Context())
	watcher, err := s.watches.join(c, r.PathValue("id")) // before the first read: a change after it is told
	if err != nil {
		return err
	}
	defer s.watches.leave(watcher)
	j, err := s.cfg.Record.Job(r.Context(), c.tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead { // which has no body to wait for
		s.stream(w, r, watcher, s.event(j))
	}
	return nil
}

// stream writes until the job has ended or somebody is gone.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, watcher *watcher, now event) {
	control := http.NewResponseController(w)
	seen, told := r.Header.Get("Last-Event-ID"), int64(-1)
	alive := time.NewTicker(sayAlive)
	defer alive.Stop()
	for {
		var err error
		fresh := now.seq > told // the look may have read before the stream did, and told later
		if fresh && (strconv.FormatInt(now.seq, 10) != seen || now.ended) {
			_, err = w.Write(now.text)
		}
		told = max(told, now.seq)
		if err == nil {
			err = control.Flush()
		}
		if err != nil || fresh && now.ended {
			return // gone, or done
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		case <-watcher.barred:
			return
		case <-alive.C:
			_, _ = w.Write([]byte(":\n\n")) // a failure is the next flush's
		case now = <-watcher.events:
		}
	}
}
