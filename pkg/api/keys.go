package api

import (
	"net/http"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// KeyOrder asks for a key.
type KeyOrder struct {
	Tenant          string     `json:"tenant"`
	Name            string     `json:"name,omitempty"`
	Scopes          job.Scopes `json:"scopes"`
	PerMinute       int64      `json:"per_minute,omitempty"`       // requests; zero: DefaultPerMinute
	LifetimeSeconds int64      `json:"lifetime_seconds,omitempty"` // zero: until it is revoked
}

// Rotation asks for a key in the place of another.
type Rotation struct {
	OverlapSeconds int64 `json:"overlap_seconds"` // for which both are valid
}

// KeyList is the keys of one tenant or of all.
type KeyList struct {
	Keys []job.Key `json:"keys"`
}

func (s *Server) keyRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/keys", scope: job.ScopeOperate, summary: "Make a key; its secret is told this once",
			takes: []body{jsonOf(KeyOrder{})}, gives: map[int]body{201: jsonOf(job.NewKey{})}, problems: []int{400, 404, 413, 415, 422}, handle: s.createKey},
		{method: http.MethodGet, path: "/v1/keys", scope: job.ScopeOperate, summary: "List keys, oldest first",
			params: []param{{in: "query", name: "tenant", about: "Only keys of this tenant."}},
			gives:  map[int]body{200: jsonOf(KeyList{})}, problems: []int{400}, handle: s.keys},
		{method: http.MethodPost, path: "/v1/keys/{key}/rotate", scope: job.ScopeOperate, summary: "Make a key in the place of another, which lives on for an overlap",
			takes: []body{jsonOf(Rotation{})}, gives: map[int]body{201: jsonOf(job.NewKey{})}, problems: []int{400, 404, 409, 413, 415, 422}, handle: s.rotateKey},
		{method: http.MethodDelete, path: "/v1/keys/{key}", scope: job.ScopeOperate, summary: "Revoke a key at once",
			gives: map[int]body{204: {}}, problems: []int{404}, handle: s.revokeKey},
	}
}

func (s *Server) createKey(w http.ResponseWriter, r *http.Request) error {
	order, err := readJSON[KeyOrder](r)
	if err != nil {
		return err
	}
	lifetime, err := seconds(order.LifetimeSeconds)
	if err != nil {
		return err
	}
	key, err := s.cfg.Record.CreateKey(r.Context(), job.KeyRequest{
		Tenant: order.Tenant, Name: order.Name, Scopes: order.Scopes, PerMinute: order.PerMinute, Lifetime: lifetime,
	}, callerOf(r.Context()).who())
	if err != nil {
		return err
	}
	s.gate.locked()
	w.Header().Set("Location", "/v1/keys/"+key.ID)
	return writeJSON(w, http.StatusCreated, key)
}

func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) error {
	order, err := readJSON[Rotation](r)
	if err != nil {
		return err
	}
	overlap, err := seconds(order.OverlapSeconds)
	if err != nil {
		return err
	}
	key, err := s.cfg.Record.RotateKey(r.Context(), r.PathValue("key"), overlap, callerOf(r.Context()).who())
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/keys/"+key.ID)
	return writeJSON(w, http.StatusCreated, key)
}

func (s *Server) keys(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.cfg.Record.Keys(r.Context(), r.URL.Query().Get("tenant"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, KeyList{keys})
}

func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.cfg.Record.RevokeKey(r.Context(), r.PathValue("key"), callerOf(r.Context()).who()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// seconds is a length of time that does not overflow.
func seconds(n int64) (time.Duration, error) {
	const most = int64(1<<63-1) / int64(time.Second)
	if n < 0 || n > most {
		return 0, &job.Invalid{Sentence: "A length of time is 0 seconds or more, and at most ten years."}
	}
	return time.Duration(n) * time.Second, nil
}
