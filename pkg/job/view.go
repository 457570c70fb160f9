package job

import (
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// State is what a person is told about a job or a step.
type State string

// The states; those of a step are among them.
const (
	Waiting           State = "waiting_for_capacity"
	Queued            State = "queued"
	Running           State = "running"
	Retrying          State = "retrying"
	Paused            State = "paused"
	Awaiting          State = "awaiting_provider"
	Completed         State = "completed"
	CompletedWithGaps State = "completed_with_gaps"
	Rejected          State = "refused"
	Failed            State = "failed"
	Cancelled         State = "cancelled"
	Superseded        State = "superseded"
)

// States returns every state.
func States() []State {
	return []State{Waiting, Queued, Running, Retrying, Paused, Awaiting, Completed, CompletedWithGaps, Rejected, Failed, Cancelled, Superseded}
}

// Ended reports whether nothing more will happen by itself. A failed job may still be redriven by a person.
func (s State) Ended() bool {
	switch s {
	case Completed, CompletedWithGaps, Rejected, Failed, Cancelled, Superseded:
		return true
	default:
		return false
	}
}

// Reason explains a state: a bounded code for programs, a sentence for the submitter.
type Reason struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
}

// Job is what can be said about a job at one moment.
type Job struct {
	ID        string        `json:"id"`
	Tenant    string        `json:"tenant"`
	Target    string        `json:"target"`
	Version   int64         `json:"version"`
	State     State         `json:"state"`
	Reason    *Reason       `json:"reason,omitempty"`
	Gaps      []outcome.Gap `json:"gaps,omitempty"`
	Steps     []Step        `json:"steps"`
	Result    *Result       `json:"result,omitempty"`
	Current   bool          `json:"current"`             // its result is the target's current one
	Recovered int           `json:"recovered,omitempty"` // how often a person has set it going again
	Seq       int64         `json:"seq"`                 // grows with every change of the job or of one of its steps
	RetryAt   *time.Time    `json:"retry_at,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	EndedAt   *time.Time    `json:"ended_at,omitempty"`

	Known bool `json:"-"` // only from Submit: the job existed already
}

// Step is one stage's work, or one part of it, on a job.
type Step struct {
	ID        string     `json:"id"`
	Stage     string     `json:"stage"`
	Part      *int       `json:"part,omitempty"`
	State     State      `json:"state"`
	Attempts  int        `json:"attempts"` // executions that succeeded or failed, in the current round
	Crashes   int        `json:"crashes,omitempty"`
	Reason    *Reason    `json:"reason,omitempty"`
	Progress  *Progress  `json:"progress,omitempty"`
	RetryAt   *time.Time `json:"retry_at,omitempty"`
	Worker    string     `json:"worker,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	History   []Attempt  `json:"history,omitempty"` // every execution, oldest first; only in Store.Job
}

// Attempt is one execution. Only those with Counted are attempts in the sense of the retry policy.
type Attempt struct {
	ID             string    `json:"id"`
	Worker         string    `json:"worker"`
	Counted        bool      `json:"counted"`
	Outcome        string    `json:"outcome"` // running, done, retry, defer, reject, quarantine, await, interrupted, crashed, ...
	Reason         string    `json:"reason,omitempty"`
	ClaimedAt      time.Time `json:"claimed_at"`
	ClosedAt       time.Time `json:"closed_at,omitzero"`
	QueueWaitMs    int64     `json:"queue_wait_ms"`    // from the moment the message was due to its claim
	ExecutionMs    int64     `json:"execution_ms"`     // the handler
	ProviderWaitMs int64     `json:"provider_wait_ms"` // part of the execution
	PublicationMs  int64     `json:"publication_ms"`   // from the handler's return, by the worker's clock, to the commit, by the database's
	Usage          Usage     `json:"usage,omitzero"`
	Tools          []ToolRun `json:"tools,omitempty"`
}

// Filter selects jobs, newest first.
type Filter struct {
	Tenant string    // required
	Target string    // only this target's
	State  State     // Waiting or an ended state; any other means "neither waiting nor ended"; empty: all
	Stage  string    // only jobs with an unfinished step of this stage
	Since  time.Time // only jobs submitted then or later; zero: all
	Limit  int       // 1 to 500; zero means 50
	Cursor string    // what the previous page returned
}
