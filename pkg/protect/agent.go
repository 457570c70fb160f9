package protect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// path of the endpoint (Amazon ECS developer guide, "Task scale-in protection endpoint").
const path = "/task-protection/v1/state"

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// notAService is the reason of a failure that means: this task belongs to no service, so nothing will scale it in.
const notAService = "TASK_NOT_VALID"

// refusal is ECS's no. It comes with status 200.
type refusal struct{ reason string }

func (r *refusal) Error() string { return "protection refused: " + r.reason }

var errNotProtected = errors.New("answer does not say what was asked for")

// request and answer are the bodies of the endpoint.
type request struct {
	ProtectionEnabled bool `json:"ProtectionEnabled"`
	ExpiresInMinutes  int  `json:"ExpiresInMinutes,omitempty"`
}

type answer struct {
	Protection *struct {
		ProtectionEnabled bool      `json:"ProtectionEnabled"`
		ExpirationDate    time.Time `json:"ExpirationDate"`
	} `json:"protection"`
	Failure *struct {
		Reason string `json:"Reason"`
	} `json:"failure"`
	Error *struct {
		Code string `json:"Code"`
	} `json:"error"`
}

// put asks the agent once. It succeeds only if the answer says that protection now is what was asked for.
func (t *Task) put(ctx context.Context, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Budget)
	defer cancel()
	ask := request{ProtectionEnabled: on}
	if on {
		ask.ExpiresInMinutes = int(t.cfg.Expiry / time.Minute)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, t.cfg.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("ask agent: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return judge(resp.StatusCode, text, on)
}

// judge reads an answer. The status alone says nothing: a refusal is a 200 too.
func judge(status int, text []byte, on bool) error {
	var a answer
	err := json.Unmarshal(text, &a)
	switch {
	case err == nil && a.Failure != nil:
		return &refusal{a.Failure.Reason}
	case err == nil && a.Error != nil:
		return fmt.Errorf("agent answered %d: %s", status, a.Error.Code)
	case status != http.StatusOK:
		return fmt.Errorf("agent answered %d", status)
	case err != nil:
		return fmt.Errorf("decode answer: %T", err)
	case a.Protection == nil || a.Protection.ProtectionEnabled != on:
		return errNotProtected
	}
	return nil
}
