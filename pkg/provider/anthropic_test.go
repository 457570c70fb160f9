package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

var question = Question{Instructions: "be brief", Input: "what?", MaxTokens: 100,
	Schema: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}}}

// answering is the Messages API with one answer for everybody.
func answering(t *testing.T, status int, header map[string]string, body string) (*Anthropic, func() (requests int32, last map[string]any)) {
	t.Helper()
	var count atomic.Int32
	var last map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != "key" {
			t.Errorf("%s with key %q", r.URL.Path, r.Header.Get("X-Api-Key"))
		}
		_ = json.NewDecoder(r.Body).Decode(&last)
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	a, err := NewAnthropic("key", s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return a, func() (int32, map[string]any) { return count.Load(), last }
}

func message(stop, text string) string {
	return fmt.Sprintf(`{"id":"m","type":"message","role":"assistant","model":"x","stop_reason":%q,"content":[{"type":"text","text":%q}],"usage":{"input_tokens":1,"output_tokens":1}}`, stop, text)
}

func TestAQuestionIsAskedOnceWithItsSchema(t *testing.T) {
	a, asked := answering(t, 200, nil, message("end_turn", `{"a":"b"}`))
	got, err := a.Answer(t.Context(), question)
	if err != nil || string(got) != `{"a":"b"}` {
		t.Fatalf("got %s, %v", got, err)
	}
	count, request := asked()
	format := request["output_config"].(map[string]any)["format"].(map[string]any)
	if count != 1 || request["model"] != DefaultAnthropicModel || request["max_tokens"] != 100.0 || format["type"] != "json_schema" || format["schema"] == nil {
		t.Fatalf("%d requests, %v", count, request)
	}
}

func TestAnAnswerWithoutEndIsNotReadIntoMemory(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		a, _ := answering(t, status, nil, message("end_turn", `{"a":"`+strings.Repeat("x", 2*maxReply)+`"}`))
		got, err := a.Answer(t.Context(), question)
		if err == nil || got != nil || strings.Contains(err.Error(), "xxx") {
			t.Errorf("%d: got %d bytes, %.100v", status, len(got), err)
		}
	}
}

func TestPicturesAreShownWithTheirLabels(t *testing.T) {
	a, asked := answering(t, 200, nil, message("end_turn", `{}`))
	if _, err := a.Look(t.Context(), question, []Picture{{Label: "s1", JPEG: []byte("jpeg")}, {Label: "s2", JPEG: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	_, request := asked()
	content := request["messages"].([]any)[0].(map[string]any)["content"].([]any)
	source, _ := content[1].(map[string]any)["source"].(map[string]any)
	if len(content) != 5 || content[0].(map[string]any)["text"] != "s1" || source["data"] != "anBlZw==" || content[4].(map[string]any)["text"] != "what?" {
		t.Fatalf("sent %v", content)
	}
}

func TestARefusalByTheModelIsADecline(t *testing.T) {
	a, _ := answering(t, 200, nil, message("refusal", ""))
	if _, err := a.Answer(t.Context(), question); !errors.Is(err, ErrDeclined) {
		t.Fatalf("got %v", err)
	}
}

func TestFailuresOfTheAPIHaveTheirEndsAfterOneRequest(t *testing.T) {
	wrong := func(kind string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, canary)
	}
	for name, c := range map[string]struct {
		status int
		after  string
		body   string
		kind   outcome.Kind
		reason string
		wait   time.Duration
	}{
		"rate limit":         {429, "3600", wrong("rate_limit_error"), outcome.KindRetry, "provider_http_429", time.Hour},
		"spend limit":        {429, "", `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`, outcome.KindQuarantine, ReasonSpendLimit, 0},
		"overloaded":         {529, "", wrong("overloaded_error"), outcome.KindRetry, "provider_http_529", 0},
		"gateway timeout":    {504, "", wrong("timeout_error"), outcome.KindRetry, "provider_http_504", 0},
		"bad request":        {400, "", wrong("invalid_request_error"), outcome.KindQuarantine, ReasonRequest, 0},
		"bad key":            {401, "", wrong("authentication_error"), outcome.KindQuarantine, ReasonCredentials, 0},
		"cut off":            {200, "", message("max_tokens", `{"a":"`+canary), outcome.KindRetry, ReasonAnswer, 0},
		"no text":            {200, "", `{"type":"message","content":[]}`, outcome.KindRetry, ReasonAnswer, 0},
		"not the API's JSON": {200, "", canary, outcome.KindRetry, ReasonUnreachable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, asked := answering(t, c.status, map[string]string{"Retry-After": c.after, "X-Should-Retry": "true"}, c.body)
			_, err := a.Answer(t.Context(), question)
			if v := outcome.Of(err); v.Kind != c.kind || v.Reason != c.reason || v.After != c.wait {
				t.Errorf("ended %+v", v)
			}
			quotesNothing(t, err)
			if n, _ := asked(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestAnOutageIsToldFromALimitOfOurs(t *testing.T) {
	for status, want := range map[int]bool{429: false, 400: false, 401: true, 402: true, 403: true, 500: true, 503: true, 529: true} {
		a, _ := answering(t, status, map[string]string{"Retry-After": "30"}, `{}`)
		_, err := a.Answer(t.Context(), question)
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Outage() != want {
			t.Errorf("%d: %v, an outage: %v", status, err, !want)
		}
	}
}

func TestAnEndedContextKeepsItsCause(t *testing.T) {
	a, _ := answering(t, 200, nil, message("end_turn", `{}`))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(outcome.ErrDraining)
	if _, err := a.Answer(ctx, question); !errors.Is(err, outcome.ErrDraining) {
		t.Fatalf("got %v", err)
	}
}

func TestOnlyOurOwnSettingsChooseTheModel(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "ambient")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	for name, c := range map[string]struct {
		env      map[string]string
		declines bool
		fails    bool
	}{
		"nothing set":   {nil, true, false},
		"url alone":     {map[string]string{AnthropicURL: "http://x"}, true, false},
		"key":           {map[string]string{AnthropicKey: "k"}, false, false},
		"wrong address": {map[string]string{AnthropicKey: "k", AnthropicURL: "x"}, false, true},
	} {
		getenv := func(k string) string { return c.env[k] }
		language, err1 := ChooseLanguage(getenv)
		vision, err2 := ChooseVision(getenv)
		if (err1 != nil) != c.fails || (err2 != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, err1, err2)
			continue
		}
		_, declines1 := language.(Declining)
		_, declines2 := vision.(Declining)
		if !c.fails && (declines1 != c.declines || declines2 != c.declines) {
			t.Errorf("%s: %T, %T", name, language, vision)
		}
	}
}

func TestTheOfflineDefaultsDecline(t *testing.T) {
	if _, err := (Declining{}).Answer(t.Context(), question); !errors.Is(err, ErrDeclined) {
		t.Error(err)
	}
	if _, err := (Declining{}).Look(t.Context(), question, nil); !errors.Is(err, ErrDeclined) {
		t.Error(err)
	}
}

func TestRetryAfterIsReadAsSecondsOrDate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "7": 7 * time.Second, "1.5": 1500 * time.Millisecond, "soon": 0, "NaN": 0, "1e99": 0, "-1e99": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:04:04 GMT": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": 0, // of a clock that is wrong
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %v", value, got)
		}
	}
}

func TestOnlyCodesPassIntoErrors(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"type":"overloaded_error"}}`:                             "overloaded_error",
		`{"error":{"type":"rate_limit_error","code":"insufficient_quota"}}`: "insufficient_quota",
		`{"error":{"code":429,"type":"x"}}`:                                 "x",
		`{"error":{"type":"Your words: ` + canary + `"}}`:                   "",
		`{"error":{"type":"` + strings.Repeat("a", 61) + `"}}`:              "",
		`{"error":"text"}`: "", `[]`: "", ``: "",
	} {
		if got := code([]byte(body)); got != want {
			t.Errorf("%s: got %q", body, got)
		}
	}
}

func TestEverySettingIsListed(t *testing.T) {
	if got := Variables(); len(got) != 6 {
		t.Fatalf("got %v", got)
	}
	for _, v := range Variables() {
		if !strings.HasPrefix(v, "FLEET_") {
			t.Errorf("%s lacks the prefix", v)
		}
	}
}

func TestAMeterHearsOfRequestsAndOfEveryTokenCounted(t *testing.T) {
	var used Usage
	ctx := WithMeter(t.Context(), func(u Usage) {
		used.Requests += u.Requests
		used.InputTokens += u.InputTokens
		used.OutputTokens += u.OutputTokens
	})
	good, _ := answering(t, 200, nil, `{"id":"m","type":"message","role":"assistant","model":"x","stop_reason":"end_turn","content":[{"type":"text","text":"{}"}],
		"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":3,"output_tokens":7}}`)
	if _, err := good.Answer(ctx, question); err != nil {
		t.Fatal(err)
	}
	if used != (Usage{Requests: 1, InputTokens: 123, OutputTokens: 7}) {
		t.Errorf("used %+v", used)
	}
	bad, _ := answering(t, 500, nil, `{}`)
	if _, err := bad.Answer(ctx, question); err == nil || used.Requests != 2 || used.InputTokens != 123 {
		t.Errorf("after a failure %v: %+v", err, used)
	}
}
