package job

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Route says where the messages of a step go. Queue and DLQ are names; the Sender resolves them.
type Route struct {
	Stage string `json:"stage"`
	Queue string `json:"queue"`
	DLQ   string `json:"dlq"`
	FIFO  bool   `json:"fifo"`
	Join  bool   `json:"join"` // the step that collects the parts of a fan-out
	// Window is how much of one tenant of weight 1 may be under way: jobs, from their first step on; parts of a fan-out, in
	// their queue and at work. What is beyond it waits in the record. Zero: no limit. Other steps pass freely.
	Window int64 `json:"window"`
}

// Submission asks for a job.
type Submission struct {
	Tenant         string          // account that pays; 1 to 64 of a-z, A-Z, 0-9, dot, dash, underscore
	Target         string          // the submitter's own name of what is worked on; 1 to 512 bytes of UTF-8, no control characters
	Version        int64           // zero: one more than the latest
	Digest         string          // of the input's bytes: one version has one digest for ever
	Input          json.RawMessage // of the first step
	Upload         string          // folder that Uploaded has noted and the input refers to; empty: none
	First          Route
	Price          int64 // charged now, refunded once if the job fails or is refused; zero is free
	IdempotencyKey string
	BodyHash       string  // what must be equal for the key to mean the same request
	TraceParent    string  // W3C trace context, sent along with the first message
	Row            *RowRef // of the import that asks: settled with the job, so that one row never makes two
	Webhook        string  // address that the job's end is reported to; empty: nobody asks
}

// ClaimRequest asks for permission to run the step that a message stands for.
type ClaimRequest struct {
	Step, Tenant string
	Emission     int64
	Stage        string        // of the worker; another stage's message is quarantined
	Worker       string        // who asks, for people
	Lease        time.Duration // how long the permission lasts unless renewed
	MaxCrashes   int           // so many lost owners in one round end the step; zero means DefaultMaxCrashes

	ReceivesAtLimit bool // one more receive would dead-letter the message

	token string // of the claim, chosen before the call: asked for again, it is the same claim
}

// DefaultMaxCrashes is how often in one round a step's owner may vanish before the step dies.
const DefaultMaxCrashes = 3

// Claim is the permission to run one step, for Lease from before the call that got it.
type Claim struct {
	Step, Job, Tenant, Target, Stage string
	Token                            string // fences every later write
	Key                              string // identifier of this execution; its objects go into its Folder
	Version, Emission                int64
	Part                             int // of a fan-out, from 0; -1 for a step that is not a part
	Attempt                          int // 1-based number of this execution if it comes to count
	Input                            json.RawMessage
	Gaps                             []outcome.Gap   // what earlier steps of the job found missing
	Event                            json.RawMessage // what the provider said, when the step resumes after an await
	Lease                            time.Duration
}

// Renewal prolongs one claim.
type Renewal struct {
	Step, Token string
	Lease       time.Duration
}

// Do is what becomes of the message at hand.
type Do string

// What a message's fate may be.
const (
	Delete     Do = "delete"     // the record has what it needs, or wants no more of it
	Hide       Do = "hide"       // let it come back after Settle.After
	Leave      Do = "leave"      // somebody else owns it now
	Quarantine Do = "quarantine" // copy it to the dead-letter queue, then delete it
)

// Settle says what to do with a message once the record has spoken.
type Settle struct {
	Do     Do
	After  time.Duration
	Reason string // one of a bounded vocabulary, fit for a metric label
}

// Timings is what one execution spent its time on. Times are the worker's own clock.
type Timings struct {
	ReceivedAt, StartedAt, EndedAt time.Time
	ProviderWait                   time.Duration
	Usage                          Usage
	Tools                          []ToolRun
}

// Usage is what one execution used of a provider's quotas. Zero where no provider was asked or none said.
type Usage struct {
	Requests     int64 `json:"requests"`
	InputTokens  int64 `json:"input_tokens"` // all that was sent, read from a cache or not
	OutputTokens int64 `json:"output_tokens"`
}

// ToolRun is the lifetime of one child process.
type ToolRun struct {
	Tool  string        `json:"tool"`
	Start time.Time     `json:"start"`
	End   time.Time     `json:"end"`
	CPU   time.Duration `json:"cpu_ns"`
}

// Publication is the success of an execution.
type Publication struct {
	Claim       Claim
	Output      json.RawMessage
	FanOut      bool
	Parts       []json.RawMessage // with FanOut: one step each at Next, none at all goes to Join
	Next        *Route            // nil after the last stage
	Join        *Route            // where the parts come together
	Gaps        []outcome.Gap     // replaces nothing: added to the job's
	Result      *Result           // of the last stage: becomes the target's current result if it still may
	Timings     Timings
	TraceParent string
}

// Result is what a finished job offers: object keys.
type Result struct {
	Dir      string `json:"dir"`
	Manifest string `json:"manifest"`
	Index    string `json:"index"`
}

// Published says whether the publication was accepted. A refused one has changed nothing.
type Published struct {
	Accepted bool
	Settle
	Outgoing []Outgoing // to be given to Dispatch at once
}

// Ending is the end of an execution that did not succeed.
type Ending struct {
	Claim           Claim
	Verdict         outcome.Verdict
	Action          outcome.Action
	Timings         Timings
	ReceivesAtLimit bool // one more receive would dead-letter the message: a new one is sent instead
	TraceParent     string
}

// Ended says what to do with the message. Accepted is false when the execution no longer owned its step.
type Ended struct {
	Accepted bool
	Settle
	Outgoing []Outgoing
}

// Outgoing is a message whose sending has been committed. It is leased: only the holder of Token may mark it.
type Outgoing struct {
	ID, Token    string
	Queue        string
	FIFO         bool
	Group, Dedup string // Group is set for every queue: exclusion on a FIFO queue, fairness on a standard one
	Body, Tenant string
	Delay        time.Duration // at most 15 minutes, zero on FIFO queues
	Attributes   map[string]string
	DueAt        time.Time
}

// Sender puts messages into queues.
type Sender interface {
	// Send sends up to ten rows of one queue, no two of one FIFO group, and returns one error, or nil, for each, in order.
	Send(ctx context.Context, rows []Outgoing) []error
}

// Counter tells how many messages a queue holds, by SQS's own three approximate counts.
type Counter interface {
	Count(ctx context.Context, queue string) (visible, inFlight, delayed int64, err error)
}

// Progress is how far a running step is.
type Progress struct {
	Unit    string `json:"unit"`
	Done    int64  `json:"done"`
	Total   int64  `json:"total"` // negative: unknown
	Meaning string `json:"meaning,omitempty"`
}

// WorkerStatus is what a worker says of itself every few seconds.
type WorkerStatus struct {
	ID          string    `json:"id"`
	Stage       string    `json:"stage"`
	Version     string    `json:"version"`
	StartedAt   time.Time `json:"started_at"`
	SeenAt      time.Time `json:"seen_at"` // set by the store
	LastReceive time.Time `json:"last_receive"`
	Slots       int       `json:"slots"`
	Busy        int       `json:"busy"`
	Breaker     string    `json:"breaker"` // closed, half_open or open
	Paused      bool      `json:"paused"`
	Draining    bool      `json:"draining"`
	Protection  string    `json:"protection"`
	// Signals are what the worker says of itself for alarms, by package stage's names; what it counts, since it started.
	Signals map[string]float64 `json:"signals,omitempty"`
}
