package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// Problem is an error as the API states it: RFC 9457 problem details, with a code for programs and a sentence for people.
// The client returns it as an error.
type Problem struct {
	Type       string        `json:"type"` // always about:blank: Code tells problems apart
	Title      string        `json:"title"`
	Status     int           `json:"status"`
	Detail     string        `json:"detail"`             // one sentence
	Instance   string        `json:"instance,omitempty"` // the address that was asked
	Code       string        `json:"code"`               // bounded snake_case word
	ResetAt    *time.Time    `json:"reset_at,omitempty"` // when asking again may help
	RetryAfter time.Duration `json:"-"`                  // the same as the header says it; zero when waiting does not help
}

// Error returns the sentence.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, code, sentence string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(sentence, args...)}
}

// problemOf turns an error of the record into what the submitter is told. Errors that it does not know stay private.
func problemOf(err error) *Problem {
	var known *Problem
	var refused *job.Refused
	var invalid *job.Invalid
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, "too_large", "The body is larger than %d bytes, the most that is taken here.", tooLarge.Limit)
	case errors.As(err, &invalid):
		return problem(http.StatusUnprocessableEntity, "invalid", "%s", invalid.Sentence)
	case errors.Is(err, job.ErrNotFound):
		return problem(http.StatusNotFound, "not_found", "There is no such thing, or it is not yours.")
	case errors.Is(err, job.ErrOffset):
		return problem(http.StatusConflict, "offset", "Another request has sent these bytes; ask the upload where it stands.")
	case errors.Is(err, job.ErrUploadGone):
		return problem(http.StatusConflict, "upload_gone", "The upload has made another job already, or was removed because none had taken it: send the recording again.")
	case errors.Is(err, job.ErrEnded):
		return problem(http.StatusConflict, "ended", "It has ended already.")
	case errors.Is(err, job.ErrVersionOlder):
		return problem(http.StatusConflict, "version_older", "A newer version of the target has been taken in; submit this one under a higher version.")
	case errors.Is(err, job.ErrVersionConflict):
		return problem(http.StatusConflict, "version_conflict", "This version of the target exists already with other content; submit it under another version.")
	case errors.Is(err, job.ErrIdempotencyMismatch):
		return problem(http.StatusUnprocessableEntity, "idempotency_mismatch", "The idempotency key was used before with another request.")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return problem(http.StatusInternalServerError, "disk_full", "The fleet's disk is full; its operator has to make room.")
	}
	return problem(http.StatusInternalServerError, "internal", "The fleet could not do this; its log says why.")
}

// refusal tells apart what waiting mends, what money mends, and what only the operator can.
func refusal(r *job.Refused) *Problem {
	var p *Problem
	switch r.Reason {
	case "balance":
		p = problem(http.StatusPaymentRequired, r.Reason, "The account's balance does not cover this job.")
	case "capacity":
		p = problem(http.StatusServiceUnavailable, r.Reason, "The fleet has more work than it accepts; nothing was charged, try again later.")
	case "daily_cap":
		p = problem(http.StatusTooManyRequests, r.Reason, "The account has spent its daily allowance.")
	default:
		p = problem(http.StatusTooManyRequests, r.Reason, "The account has as many jobs in flight as it may.")
	}
	p.RetryAfter = r.RetryAfter
	return p
}

// writeProblem answers a request with a copy of p.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	told := *p
	told.Instance = r.URL.EscapedPath()
	w.Header().Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.RetryAfter > 0 {
		wait := (p.RetryAfter + time.Second - 1).Truncate(time.Second)
		reset := time.Now().Add(wait).UTC().Truncate(time.Second)
		told.ResetAt = &reset
		w.Header().Set("Retry-After", strconv.FormatInt(int64(wait/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(told) // a client that hung up gets no answer
}
