package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// hookOverlap is how long the secret before signs too after a new one has been made.
const hookOverlap = 24 * time.Hour

// webhookRoutes are about the reports that submitters get of their jobs' ends.
func (s *Server) webhookRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/v1/jobs/{id}/webhooks", scope: job.ScopeView, summary: "How far the reports of a job's end have come",
			gives: map[int]body{200: jsonOf([]job.Hook{})}, problems: []int{404}, handle: s.hooks},
		{method: http.MethodGet, path: "/v1/webhook-secret", scope: job.ScopeSubmit, summary: "The secret that signs your webhooks, made when it is first asked for",
			gives: map[int]body{200: jsonOf(hookSecret{})}, handle: s.hookSecret},
		{method: http.MethodPost, path: "/v1/webhook-secret", scope: job.ScopeSubmit, summary: "Replace the secret; for a day both sign",
			gives: map[int]body{200: jsonOf(hookSecret{})}, handle: s.rotateHookSecret},
	}
}

type hookSecret struct {
	Secret string `json:"secret"` // whsec_ and base64
}

func (s *Server) hooks(w http.ResponseWriter, r *http.Request) error {
	tenant, id := callerOf(r.Context()).tenant, r.PathValue("id")
	if _, err := s.cfg.Record.Seq(r.Context(), tenant, id); err != nil {
		return err
	}
	hooks, err := s.cfg.Events.Hooks(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, hooks)
}

func (s *Server) hookSecret(w http.ResponseWriter, r *http.Request) error {
	secrets, err := s.cfg.Events.HookSecrets(r.Context(), callerOf(r.Context()).tenant, webhook.NewSecret().Text())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, hookSecret{Secret: secrets[0]})
}

func (s *Server) rotateHookSecret(w http.ResponseWriter, r *http.Request) error {
	c, fresh := callerOf(r.Context()), webhook.NewSecret().Text()
	if err := s.cfg.Events.RotateHookSecret(r.Context(), c.tenant, fresh, c.who(), hookOverlap); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, hookSecret{Secret: fresh})
}

// reportable refuses an address to which no report of the caller's jobs could be sent.
func (s *Server) reportable(c caller, address string) error {
	if err := webhook.CheckURL(address, s.cfg.Local && c.tenant == Tenant); err != nil {
		sentence := err.Error()
		return problem(http.StatusBadRequest, "webhook", "%s%s.", strings.ToUpper(sentence[:1]), sentence[1:])
	}
	return nil
}
