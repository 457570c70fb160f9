package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	maxReason = 512  // bytes of a person's reason
	maxActor  = 64   // bytes of a name in the audit
	maxYear   = 9999 // that JSON can tell (RFC 3339)
)

// ActorHeader names the person behind a call without a key, for the audit.
const ActorHeader = "Fleet-Actor"

// operatorRoutes are what an operator sees and orders; a job is cancelled by whoever may submit.
func (s *Server) operatorRoutes() []route {
	const operate = job.ScopeOperate
	order := taking(Order{})
	return []route{
		{method: http.MethodPost, path: "/v1/jobs/{id}/cancel", scope: job.ScopeSubmit, summary: "End a job that has not ended",
			takes: order, gives: map[int]body{200: jsonOf(job.Job{})}, problems: []int{400, 404, 409, 413, 415}, handle: s.cancel},
		{method: http.MethodGet, path: "/v1/dead", scope: operate, summary: "What waits for a person: dead steps, and messages that the record does not know",
			params: []param{
				{in: "query", name: "stage", about: "Only of this stage."},
				{in: "query", name: "limit", about: "At most so many steps; 500 unless given.", like: 0},
				{in: "query", name: "cursor", about: "What the page before gave."},
			},
			gives: map[int]body{200: jsonOf(admin.DeadPage{})}, problems: []int{400, 404}, handle: s.dead},
		{method: http.MethodGet, path: "/v1/dead/{id}", scope: operate, summary: "All that is known of one dead step or unknown message",
			gives: map[int]body{200: jsonOf(admin.Inspection{})}, problems: []int{404, 409}, handle: s.inspect},
		{method: http.MethodPost, path: "/v1/dead/{id}/redrive", scope: operate, summary: "Set the dead steps of a job going again, without a new charge",
			takes: order, gives: map[int]body{200: jsonOf(job.Job{})}, problems: []int{400, 404, 409, 413, 415}, handle: s.redrive},
		{method: http.MethodPost, path: "/v1/dead/{id}/discard", scope: operate, summary: "Give up the dead steps of a job, or delete an unknown message",
			takes: order, gives: map[int]body{200: jsonOf(job.Job{})}, problems: []int{400, 404, 409, 413, 415}, handle: s.discard},
		{method: http.MethodGet, path: "/v1/pauses", scope: operate, summary: "The pauses in force",
			gives: map[int]body{200: jsonOf([]admin.Pause{})}, handle: s.pauses},
		{method: http.MethodPost, path: "/v1/pauses", scope: operate, summary: "Stop a stage, or all, from taking new work",
			takes: taking(PauseOrder{}), gives: map[int]body{200: jsonOf(admin.Pause{})}, problems: []int{400, 404, 413, 415}, handle: s.pause},
		{method: http.MethodDelete, path: "/v1/pauses/{stage}", scope: operate, summary: "Lift a pause",
			gives: map[int]body{200: jsonOf(Resumed{})}, problems: []int{404}, handle: s.resume},
		{method: http.MethodPost, path: "/v1/garbage", scope: operate, summary: "Remove objects that nothing refers to",
			takes: taking(CollectOrder{}), gives: map[int]body{200: jsonOf(admin.Collected{})}, problems: []int{400, 413, 415}, handle: s.collect},
	}
}

// taking is a body of JSON like the value.
func taking(like any) []body { return []body{{media: "application/json", like: like}} }

// Order is the body of a cancel, a redrive or a discard.
type Order struct {
	Reason string `json:"reason,omitempty"` // for the audit
}

// PauseOrder asks for a pause.
type PauseOrder struct {
	Stage  string    `json:"stage"` // or all
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"` // zero: until resumed
}

// Resumed says what a resume did.
type Resumed struct {
	Stage string        `json:"stage"`
	Was   bool          `json:"was_paused"`
	Still []admin.Pause `json:"still_paused"` // by these, as by a pause of all
}

// CollectOrder asks for garbage collection.
type CollectOrder struct {
	DryRun           bool  `json:"dry_run"`
	OlderThanSeconds int64 `json:"older_than_seconds,omitempty"` // zero: as soon as nobody can be writing any more
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	order, err := orderOf(r)
	if err != nil {
		return err
	}
	j, err := s.cfg.Operator.Cancel(r.Context(), callerOf(r.Context()).tenant, r.PathValue("id"), actor(r), order.Reason)
	if errors.Is(err, job.ErrEnded) {
		return problem(http.StatusConflict, "ended", "The job cannot be cancelled: it is %s.", strings.ReplaceAll(string(j.State), "_", " "))
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.placed(j))
}

func (s *Server) dead(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	filter := job.DeadFilter{Stage: query.Get("stage"), After: query.Get("cursor"), Limit: MaxPage}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > MaxPage {
			return problem(http.StatusBadRequest, "limit", "The limit must be a whole number from 1 to %d.", MaxPage)
		}
		filter.Limit = limit
	}
	page, err := s.cfg.Operator.Dead(r.Context(), filter)
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, page)
}

func (s *Server) inspect(w http.ResponseWriter, r *http.Request) error {
	found, err := s.cfg.Operator.Inspect(r.Context(), r.PathValue("id"))
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, found)
}

func (s *Server) redrive(w http.ResponseWriter, r *http.Request) error {
	if _, err := orderOf(r); err != nil {
		return err
	}
	j, err := s.cfg.Operator.Redrive(r.Context(), r.PathValue("id"), actor(r))
	if errors.Is(err, job.ErrNotFound) {
		return problem(http.StatusNotFound, "not_found", "There is no dead step and no job of this ID; a message that the record does not know can only be discarded.")
	}
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, s.placed(j))
}

func (s *Server) discard(w http.ResponseWriter, r *http.Request) error {
	order, err := orderOf(r)
	if err != nil {
		return err
	}
	j, err := s.cfg.Operator.Discard(r.Context(), r.PathValue("id"), actor(r), order.Reason)
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, s.placed(j))
}

func (s *Server) pauses(w http.ResponseWriter, r *http.Request) error {
	all, err := s.cfg.Operator.Pauses(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, all)
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) error {
	var order PauseOrder
	if err := readBody(r, &order); err != nil {
		return err
	}
	if err := sayable(order.Reason); err != nil {
		return err
	}
	if order.Reason == "" {
		return problem(http.StatusBadRequest, "reason", "A pause needs a reason, for those who find the stage paused.")
	}
	if order.Until.UTC().Year() > maxYear {
		return problem(http.StatusBadRequest, "until", "The end of the pause must be in a year of four digits.")
	}
	p, err := s.cfg.Operator.Pause(r.Context(), job.PauseEntry{Stage: order.Stage, Reason: order.Reason, Who: actor(r), Until: order.Until})
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, p)
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request) error {
	stage := r.PathValue("stage")
	was, still, err := s.cfg.Operator.Resume(r.Context(), stage, actor(r))
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, Resumed{Stage: stage, Was: was, Still: append([]admin.Pause{}, still...)})
}

func (s *Server) collect(w http.ResponseWriter, r *http.Request) error {
	var order CollectOrder
	if err := readBody(r, &order); err != nil {
		return err
	}
	older, err := seconds(order.OlderThanSeconds)
	if err != nil {
		return problem(http.StatusBadRequest, "older_than", "The age must be 0 seconds or more, and at most ten years.")
	}
	got, err := s.cfg.Operator.Collect(r.Context(), older, order.DryRun, actor(r))
	if err != nil {
		return operating(err)
	}
	return writeJSON(w, http.StatusOK, got)
}

// operating says what the errors of package admin mean to an operator.
func operating(err error) error {
	var unknown *admin.StageError
	var young *admin.AgeError
	switch {
	case errors.As(err, &unknown):
		return problem(http.StatusNotFound, "unknown_stage", "There is no stage %q; the stages are %s.", unknown.Name, strings.Join(unknown.Known, ", "))
	case errors.As(err, &young):
		return problem(http.StatusBadRequest, "older_than", "The age must be %v or more: a worker that has lost its lease may still be writing.", young.Least)
	case errors.Is(err, admin.ErrPast):
		return problem(http.StatusBadRequest, "until", "The end of the pause must be in the future.")
	case errors.Is(err, job.ErrEnded):
		return problem(http.StatusConflict, "not_dead", "Nothing of this is dead: it was redriven or discarded before, a newer version has taken over, or the job cannot complete any more.")
	case errors.Is(err, job.ErrNotFound):
		return problem(http.StatusNotFound, "not_found", "There is no dead step, no job and no unknown message of this ID.")
	}
	return err
}

// orderOf reads an order and checks its reason.
func orderOf(r *http.Request) (Order, error) {
	var order Order
	if err := readBody(r, &order); err != nil {
		return order, err
	}
	return order, sayable(order.Reason)
}

// sayable bounds what the audit repeats.
func sayable(reason string) error {
	if len(reason) > maxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		return problem(http.StatusBadRequest, "reason", "The reason must have at most %d bytes and no control characters.", maxReason)
	}
	return nil
}

// actor names who gives an order, for the audit: the key, or the person that the local operator says to be. Nothing proves that
// name: without keys, whoever is on this machine may order.
func actor(r *http.Request) string {
	c := callerOf(r.Context())
	name := strings.Map(func(char rune) rune {
		if unicode.IsPrint(char) {
			return char
		}
		return -1
	}, r.Header.Get(ActorHeader))
	if name == "" || c.key != "" {
		return c.who()
	}
	return strings.ToValidUTF8(name[:min(len(name), maxActor)], "")
}
