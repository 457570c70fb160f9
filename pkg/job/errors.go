package job

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrVersionConflict means that this version of the target exists with other bytes (HTTP 409).
	ErrVersionConflict = errors.New("this version exists with other content")
	// ErrIdempotencyMismatch means that the idempotency key was used with another request (HTTP 422).
	ErrIdempotencyMismatch = errors.New("the idempotency key belongs to another request")
	// ErrNotFound means no such thing, or not the caller's (HTTP 404).
	ErrNotFound = errors.New("not found")
	// ErrEnded means that the job or step has ended in a way that forbids the change.
	ErrEnded = errors.New("already ended")
	// ErrUploadGone means that the submission's upload has been collected as garbage: it must be sent again.
	ErrUploadGone = errors.New("the upload has been collected")
	// ErrInvalidPublication means that a publication can never be accepted: the stage's output is at fault.
	ErrInvalidPublication = errors.New("invalid publication")
	// ErrNotOwner means that the claim does not own its step any more.
	ErrNotOwner = errors.New("the claim does not own its step")
)

// Invalid is a value that can never be taken, with one sentence for who gave it (HTTP 422).
type Invalid struct{ Sentence string }

func (e *Invalid) Error() string { return e.Sentence }

// Refused is an admission that was declined and charged nothing.
type Refused struct {
	Reason     string        // in_flight_limit, daily_cap, balance or capacity
	RetryAfter time.Duration // zero when waiting does not help
}

func (e *Refused) Error() string { return fmt.Sprintf("submission refused: %s", e.Reason) }

// ClaimRefused says what to do with a message whose step may not be run. It is never an attempt.
type ClaimRefused struct {
	Settle
	Outgoing []Outgoing // of a step that died instead of running: to be given to Dispatch
}

func (e *ClaimRefused) Error() string { return fmt.Sprintf("claim refused: %s", e.Reason) }
