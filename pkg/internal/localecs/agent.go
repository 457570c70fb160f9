package localecs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Bounds of protection, as the ECS API reference gives them for UpdateTaskProtection.
const (
	defaultProtection = 120
	maxProtection     = 2880 // minutes
	maxAgentBody      = 4 << 10
)

// protectionRequest is the body of a PUT. Other keys are refused, as the ECS agent does.
type protectionRequest struct {
	ProtectionEnabled *bool
	ExpiresInMinutes  *int
}

// protectionReply carries exactly one of its fields.
type protectionReply struct {
	Protection *protectionState   `json:"protection,omitempty"`
	Failure    *protectionFailure `json:"failure,omitempty"`
	Error      *protectionError   `json:"error,omitempty"`
}

type protectionState struct {
	ExpirationDate    string `json:",omitempty"` // RFC 3339, UTC
	ProtectionEnabled bool
	TaskArn           string
}

type protectionFailure struct {
	Arn    string
	Detail *string
	Reason string
}

type protectionError struct {
	Arn, Code, Message string
}

// handler serves the task agent: one secret path per task, so that no worker speaks for another.
func (c *Cluster) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/{token}/task-protection/v1/state", c.getProtection)
	mux.HandleFunc("PUT /api/{token}/task-protection/v1/state", c.putProtection)
	mux.HandleFunc("GET /v4/{token}/task", c.taskMetadata)
	return mux
}

func (c *Cluster) getProtection(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[r.PathValue("token")]
	if t == nil {
		refuse(w, http.StatusNotFound, "", "ResourceNotFoundException", "no running task has this address")
		return
	}
	reply(w, http.StatusOK, protectionReply{Protection: t.state(time.Now())})
}

func (c *Cluster) putProtection(w http.ResponseWriter, r *http.Request) {
	var request protectionRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAgentBody))
	decoder.DisallowUnknownFields()
	problem := decoder.Decode(&request)

	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[r.PathValue("token")]
	switch {
	case t == nil:
		refuse(w, http.StatusNotFound, "", "ResourceNotFoundException", "no running task has this address")
	case problem != nil:
		refuse(w, http.StatusBadRequest, t.arn(), "InvalidParameterException", "the body is not a protection request")
	case request.ProtectionEnabled == nil:
		refuse(w, http.StatusBadRequest, t.arn(), "InvalidParameterException", "ProtectionEnabled is missing")
	default:
		c.setProtection(w, t, request)
	}
}

// setProtection answers as ECS does: with 200 even when it refuses. The caller holds c.mu.
func (c *Cluster) setProtection(w http.ResponseWriter, t *task, request protectionRequest) {
	now := time.Now()
	if !*request.ProtectionEnabled {
		t.protect(time.Time{}, now, nil)
		reply(w, http.StatusOK, protectionReply{Protection: t.state(now)})
		c.settle(t.service)
		return
	}
	minutes := defaultProtection
	if request.ExpiresInMinutes != nil {
		minutes = *request.ExpiresInMinutes
	}
	if minutes < 1 || minutes > maxProtection {
		refuse(w, http.StatusBadRequest, t.arn(), "InvalidParameterException",
			fmt.Sprintf("ExpiresInMinutes %d must be 1 to %d", minutes, maxProtection))
		return
	}
	if !t.protected(now) && c.protectedTasks(t.service, now) >= t.service.Count {
		reply(w, http.StatusOK, protectionReply{Failure: &protectionFailure{Arn: t.arn(), Reason: "DEPLOYMENT_BLOCKED"}})
		return
	}
	t.protect(now.Add(time.Duration(minutes)*time.Minute), now, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle(t.service)
	})
	reply(w, http.StatusOK, protectionReply{Protection: t.state(now)})
}

// protectedTasks counts those of one service. The caller holds c.mu.
func (c *Cluster) protectedTasks(s *service, now time.Time) int {
	n := 0
	for _, t := range c.tasks {
		if t.service == s && t.protected(now) {
			n++
		}
	}
	return n
}

func (t *task) state(now time.Time) *protectionState {
	state := &protectionState{TaskArn: t.arn(), ProtectionEnabled: t.protected(now)}
	if state.ProtectionEnabled {
		state.ExpirationDate = t.expires.UTC().Format(time.RFC3339)
	}
	return state
}

// taskMetadata answers the part of the task metadata endpoint version 4 that a worker reads.
func (c *Cluster) taskMetadata(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[r.PathValue("token")]
	if t == nil {
		http.Error(w, "no running task has this address", http.StatusNotFound)
		return
	}
	desired := "RUNNING"
	if t.slot.retired || c.life == nil {
		desired = "STOPPED"
	}
	reply(w, http.StatusOK, map[string]string{
		"Cluster": "local", "ServiceName": t.service.Name, "TaskARN": t.arn(), "Family": t.service.Name, "Revision": "1",
		"DesiredStatus": desired, "KnownStatus": "RUNNING", "LaunchType": "EXTERNAL", "AvailabilityZone": "local",
		"PullStartedAt": t.started.UTC().Format(time.RFC3339Nano),
	})
}

func refuse(w http.ResponseWriter, status int, arn, code, message string) {
	reply(w, status, protectionReply{Error: &protectionError{Arn: arn, Code: code, Message: message}})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a worker that hung up gets no answer
}
