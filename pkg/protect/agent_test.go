package protect_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/protect"
)

// Bodies of the agent, as its source and the ECS developer guide give them.
const (
	granted   = `{"protection":{"ExpirationDate":"2000-01-01T02:00:00Z","ProtectionEnabled":true,"TaskArn":"arn:t"}}`
	released  = `{"protection":{"ProtectionEnabled":false,"TaskArn":"arn:t"}}`
	blocked   = `{"failure":{"Arn":"arn:t","Detail":null,"Reason":"DEPLOYMENT_BLOCKED"}}`
	noService = `{"failure":{"Arn":"arn:t","Reason":"TASK_NOT_VALID"}}`
	throttled = `{"requestID":"r","error":{"Arn":"arn:t","Code":"ThrottlingException","Message":"Rate exceeded"}}`
	cancelled = `{"error":{"Arn":"arn:t","Code":"RequestCanceled","Message":"Timed out"}}`
)

// ask is one call that the agent got.
type ask struct {
	at      time.Duration
	enabled bool
	minutes int
}

// agent answers as scripted. It lives in one bubble, without sockets.
type agent struct {
	*testing.T
	start time.Time

	mu     sync.Mutex
	asks   []ask
	status int
	body   string        // "": what was asked for
	delay  time.Duration // before an answer
	err    error
}

func (a *agent) RoundTrip(r *http.Request) (*http.Response, error) {
	var in struct {
		ProtectionEnabled *bool
		ExpiresInMinutes  int
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil || in.ProtectionEnabled == nil || r.Method != http.MethodPut || r.URL.String() != "http://agent/task-protection/v1/state" {
		a.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	a.mu.Lock()
	a.asks = append(a.asks, ask{time.Since(a.start), *in.ProtectionEnabled, in.ExpiresInMinutes})
	status, body, delay, err := a.status, a.body, a.delay, a.err
	a.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if body == "" {
		if body = granted; !*in.ProtectionEnabled {
			body = released
		}
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (a *agent) answer(status int, body string, delay time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.body, a.delay, a.err = status, body, delay, err
}

// want checks all calls so far, each as "+" or "-" and its moment.
func (a *agent) want(want ...string) {
	a.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var got []string
	for _, c := range a.asks {
		sign := map[bool]string{true: "+", false: "-"}[c.enabled]
		got = append(got, fmt.Sprint(sign, c.at))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		a.Errorf("calls %v, want %v", got, want)
	}
}

func FuzzAnswersNeverPassForAGrantUnlessTheyAreOne(f *testing.F) {
	for _, body := range []string{granted, released, blocked, noService, throttled, cancelled, "", "{", "null", `{"protection":null}`} {
		f.Add(200, body)
		f.Add(400, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		in(t, protect.Config{}, func(s subject) {
			if body == "" {
				body = " "
			}
			s.answer(status, body, 0, nil)
			s.entered()
			var answer struct {
				Protection *struct{ ProtectionEnabled bool }
			}
			_ = json.Unmarshal([]byte(body), &answer)
			if s.State() == protect.Protected && (status != 200 || answer.Protection == nil || !answer.Protection.ProtectionEnabled) {
				t.Errorf("protected by %d %q", status, body)
			}
		})
	})
}
