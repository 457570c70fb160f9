package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// maxEvent bounds the body of a provider's event. What is larger belongs behind an address in the event.
const maxEvent = 1 << 20

// maxEffect bounds the identifier of an effect that an event names.
const maxEffect = 128

// providerRoutes are what providers call. Their keys are signatures.
func (s *Server) providerRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/provider-events/{provider}",
			summary: "Take a provider's event, signed as Standard Webhooks has it; it is durable when it is acknowledged",
			params: []param{
				{in: "header", name: webhook.HeaderID, about: "Names the event: it counts once, however often it is sent."},
				{in: "header", name: webhook.HeaderTimestamp, about: "When it was signed, in seconds since 1970."},
				{in: "header", name: webhook.HeaderSignature, about: "v1 signatures of identifier, time and raw body, with spaces between them."},
			},
			takes: []body{jsonOf(providerEvent{})}, gives: map[int]body{200: jsonOf(taken{})}, problems: []int{401, 413, 415, 422}, handle: s.providerEvent},
	}
}

// providerEvent is where an event may say which effect it answers: the identifier that the provider was given with the call.
type providerEvent struct {
	Effect   string      `json:"effect,omitempty"`
	Metadata effectNamed `json:"metadata,omitzero"`
	Data     eventData   `json:"data,omitzero"`
}

type eventData struct {
	Effect   string      `json:"effect,omitempty"`
	Metadata effectNamed `json:"metadata,omitzero"`
}

type effectNamed struct {
	Effect string `json:"effect,omitempty"`
}

type taken struct {
	Status string `json:"status"` // stored
}

// errNotAccepted is all that a bad event is told: whoever guesses learns nothing.
var errNotAccepted = problem(http.StatusUnauthorized, "event", "The event is not accepted.")

// providerEvent stores an event before it acknowledges it. One whose effect nobody awaits yet is kept for whoever will; one
// that names none is kept for people.
func (s *Server) providerEvent(w http.ResponseWriter, r *http.Request) error {
	raw, err := small(w, r, maxEvent)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return problem(http.StatusRequestEntityTooLarge, "event_too_large", "An event has at most %d bytes.", maxEvent)
	}
	if err != nil {
		return errNotAccepted
	}
	provider := r.PathValue("provider")
	id, err := webhook.Verify(r.Header, s.cfg.Providers[provider], time.Now(), raw)
	if err != nil {
		return errNotAccepted
	}
	effect, err := effectOf(raw)
	if err != nil {
		return err
	}
	if _, err := s.cfg.Events.Receive(r.Context(), job.Event{Provider: provider, ID: id, Effect: effect, Body: raw}); err != nil {
		return fmt.Errorf("store the event of %s: %w", provider, err)
	}
	return writeJSON(w, http.StatusOK, taken{Status: "stored"})
}

// effectOf finds which effect an event answers, if it says so: what no effect can be called names none. Only somebody who has
// signed it is told what is wrong with it.
func effectOf(raw []byte) (string, error) {
	var e providerEvent
	if err := json.Unmarshal(raw, &e); err != nil || !utf8.Valid(raw) || escapesNUL(raw) {
		return "", problem(http.StatusUnprocessableEntity, "event", "The event is not a JSON object with text where it names its effect.")
	}
	for _, effect := range []string{e.Effect, e.Metadata.Effect, e.Data.Effect, e.Data.Metadata.Effect} {
		if effect != "" && len(effect) <= maxEffect && job.PlainText(effect) {
			return effect, nil
		}
	}
	return "", nil
}
