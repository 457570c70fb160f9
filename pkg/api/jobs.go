package api

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// jobRoutes hand in work and tell what became of it, each for the caller's own tenant.
func (s *Server) jobRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/jobs", scope: job.ScopeSubmit, summary: "Hand in a recording",
			params: []param{{in: "header", name: "Idempotency-Key", about: "The same key with the same request makes one job, however often it is sent."}},
			takes:  []body{{media: "multipart/form-data", like: submitForm{}}, jsonOf(SubmitOrder{})},
			gives:  map[int]body{200: jsonOf(job.Job{}), 202: jsonOf(job.Job{})}, problems: []int{400, 402, 404, 409, 413, 415, 422, 503}, handle: s.submit},
		{method: http.MethodGet, path: "/v1/jobs", scope: job.ScopeView, summary: "List jobs, newest first, without their histories",
			params: []param{
				{in: "query", name: "target", about: "Only jobs of this target."},
				{in: "query", name: "state", about: "Only jobs in this state; one of work under way stands for all of them.", like: job.State("")},
				{in: "query", name: "stage", about: "Only unfinished jobs with work at this stage."},
				{in: "query", name: "since", about: "Only jobs submitted at this time or later, as in 2026-01-02T15:04:05Z.", like: time.Time{}},
				paging[0], paging[1],
			},
			gives: map[int]body{200: jsonOf(Page{})}, problems: []int{400}, handle: s.list},
		{method: http.MethodGet, path: "/v1/jobs/{id}", scope: job.ScopeView, summary: "One job with the history of its steps",
			gives: map[int]body{200: jsonOf(job.Job{})}, problems: []int{404}, handle: s.job},
		{method: http.MethodGet, path: "/v1/jobs/{id}/events", scope: job.ScopeView, summary: "The job now and after every change, as server-sent events, until it has ended",
			params: []param{{in: "header", name: "Last-Event-ID", about: "The last event that was seen; newer ones follow, none is lost."}},
			gives:  map[int]body{200: {media: "text/event-stream"}}, problems: []int{404}, handle: s.events},
	}
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	state, err := ParseState(query.Get("state"))
	if err != nil {
		return err
	}
	limit, cursor, err := pageOf(r)
	if err != nil {
		return err
	}
	filter := job.Filter{
		Tenant: callerOf(r.Context()).tenant, Target: query.Get("target"), State: state, Stage: query.Get("stage"), Limit: limit, Cursor: cursor,
	}
	if text := query.Get("since"); text != "" {
		if filter.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return problem(http.StatusBadRequest, "since", "The time must be one of RFC 3339, as in 2026-01-02T15:04:05Z.")
		}
	}
	jobs, next, err := s.cfg.Record.Jobs(r.Context(), filter)
	if err != nil {
		return err
	}
	page := Page{Jobs: []job.Job{}, Cursor: sealCursor(next)}
	for _, j := range jobs {
		page.Jobs = append(page.Jobs, s.placed(j))
	}
	return writeJSON(w, http.StatusOK, page)
}

// ParseState reads a state by which jobs are listed; an empty text is any state.
func ParseState(text string) (job.State, error) {
	switch state := job.State(text); state {
	case "", job.Waiting, job.Queued, job.Running, job.Retrying, job.Paused, job.Awaiting:
		return state, nil
	default:
		if state.Ended() {
			return state, nil
		}
	}
	return "", problem(http.StatusBadRequest, "state", "The state is none that a job can have, such as running, completed or failed.")
}

// MaxPage is the most that one list holds.
const (
	MaxPage     = 500
	defaultPage = 50
)

// Page is one list of jobs, newest first. An empty Cursor means that it is the last.
type Page struct {
	Jobs   []job.Job `json:"jobs"`
	Cursor string    `json:"cursor,omitempty"`
}

func (s *Server) job(w http.ResponseWriter, r *http.Request) error {
	j, err := s.cfg.Record.Job(r.Context(), callerOf(r.Context()).tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.placed(j))
}

// placed names the result by where it can be opened: a path on this machine, or an s3 address.
func (s *Server) placed(j job.Job) job.Job {
	if j.Result == nil {
		return j
	}
	j.Result = &job.Result{Dir: s.at(j.Result.Dir), Manifest: s.at(j.Result.Manifest), Index: s.at(j.Result.Index)}
	return j
}

func (s *Server) at(key string) string {
	place, err := url.Parse(s.cfg.Place)
	if err != nil || place.Scheme != "file" {
		return strings.TrimSuffix(s.cfg.Place, "/") + "/" + key
	}
	return path.Join(place.Path, key)
}
