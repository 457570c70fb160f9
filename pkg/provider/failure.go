package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Failure is a provider's refusal by HTTP status. It carries codes only, no text of the answer.
type Failure struct {
	Provider string
	Status   int
	Code     string // the machine-readable kind that the provider gave, if any
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Code == "" {
		return fmt.Sprintf("%s answered %d", f.Provider, f.Status)
	}
	return fmt.Sprintf("%s answered %d %s", f.Provider, f.Status, f.Code)
}

// Reason names the failure for a record (package outcome).
func (f *Failure) Reason() string { return fmt.Sprintf("provider_http_%d", f.Status) }

// Outage tells what the provider would refuse to any request, in its own trouble or with our key or budget, from what it refuses to
// this one (package breaker).
func (f *Failure) Outage() bool {
	return f.Status >= http.StatusInternalServerError || spent[f.Code] || keyless[f.Status]
}

// Reasons of the ends that providers cause, besides those of package outcome.
const (
	ReasonSpendLimit  = "provider_spend_limit" // somebody must raise a limit or pay
	ReasonCredentials = "provider_credentials"
	ReasonRequest     = "provider_request" // the provider does not understand our request
	ReasonTooLarge    = "too_large_for_provider"
	ReasonUnreachable = "provider_unreachable"
	ReasonAnswer      = "provider_answer" // it lacks what was asked for
)

// spent are codes that come with 429 and that no waiting heals (Anthropic: "API errors"; OpenAI: "Error codes").
var spent = map[string]bool{"enforced_spend_limit_reached": true, "insufficient_quota": true}

// keyless are answers to a key that is missing, has expired or is not paid for.
var keyless = map[int]bool{http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusPaymentRequired: true}

// statusOverloaded is Anthropic's own status for an overloaded platform.
const statusOverloaded = 529

// failed turns an HTTP refusal into an end: waiting heals a rate limit, nothing heals an exhausted budget, and
// what our request gets wrong it will get wrong again.
func failed(provider string, status int, header http.Header, body []byte) error {
	f := &Failure{Provider: provider, Status: status, Code: code(body)}
	switch {
	case spent[f.Code]:
		return outcome.Quarantine(ReasonSpendLimit, f)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == statusOverloaded:
		return outcome.RetryAfter(retryAfter(header, time.Now()), f)
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return outcome.Retry(f)
	case status == http.StatusRequestEntityTooLarge:
		return outcome.Reject(ReasonTooLarge, "The recording is larger than the speech or vision service accepts.")
	case keyless[status]:
		return outcome.Quarantine(ReasonCredentials, f)
	default:
		return outcome.Quarantine(ReasonRequest, f)
	}
}

// unreachable is the end of a call that got no answer. The transport's own error is left out: it can quote an
// address with a key in it.
func unreachable(ctx context.Context, provider string) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("ask %s: %w", provider, err)
	}
	return outcome.Fail(ReasonUnreachable, fmt.Errorf("%s cannot be reached", provider))
}

// unreadable is the end of a call whose answer makes no sense: another try may get a better one.
func unreadable(provider, what string) error {
	return outcome.Fail(ReasonAnswer, fmt.Errorf("%s gave an answer without %s", provider, what))
}

// longestAfter is beyond what a provider can mean: work must not wait for a clock that is wrong.
const longestAfter = 1_000_000 * time.Second

// retryAfter reads the header of that name, seconds or a date (RFC 9110); 0 when it does not say, or nothing that can be meant.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	var after time.Duration
	if s, err := strconv.ParseFloat(value, 64); err == nil && s < longestAfter.Seconds() {
		after = time.Duration(s * float64(time.Second))
	} else if at, err := http.ParseTime(value); err == nil {
		after = at.Sub(now)
	}
	if after < 0 || after >= longestAfter {
		return 0
	}
	return after
}

var codeShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,59}$`)

// code finds the most specific machine-readable kind in an error body: providers put it into error.code,
// error.details.error_code or error.type. Anything that does not look like a code is not one.
func code(body []byte) string {
	var answer struct {
		Error struct {
			Type    any `json:"type"`
			Code    any `json:"code"`
			Details struct {
				Code any `json:"error_code"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	for _, candidate := range []any{answer.Error.Details.Code, answer.Error.Code, answer.Error.Type} {
		if s, ok := candidate.(string); ok && codeShape.MatchString(s) {
			return s
		}
	}
	return ""
}
