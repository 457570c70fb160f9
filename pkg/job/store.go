package job

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Options tunes a Store. The zero value is for a worker process.
type Options struct {
	Migrate bool // bring the schema up to date first; otherwise an older schema is an error
}

// Store is the record. Safe for concurrent use by many goroutines, and by many processes on one database.
type Store struct{}

var errNotYet = errors.New("job: not implemented yet")

// Open connects to sqlite:PATH or postgres://... and checks the schema.
func Open(ctx context.Context, url string, opt Options) (*Store, error) { return nil, errNotYet }

// Close waits for running transactions and closes the database.
func (s *Store) Close() error { return errNotYet }

// Ping reports whether the database answers a write transaction.
func (s *Store) Ping(ctx context.Context) error { return errNotYet }

// Submit admits a job: when it returns nil the job, its charge and its first message are durable.
// Match ErrVersionConflict and ErrIdempotencyMismatch with errors.Is, *Refused with errors.As.
func (s *Store) Submit(ctx context.Context, sub Submission) (Job, error) { return Job{}, errNotYet }

// Claim asks to run a step; a refusal is a *ClaimRefused. Any other error means that the store is ill.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) (Claim, error) { return Claim{}, errNotYet }

// Renew prolongs claims in one statement. The errors are positional: nil, outcome.ErrLeaseLost,
// outcome.ErrSuperseded or outcome.ErrCancelled. Its own error means that the store is ill.
func (s *Store) Renew(ctx context.Context, rs []Renewal) ([]error, error) { return nil, errNotYet }

// Publish commits the success of an execution, if its claim still owns the step.
func (s *Store) Publish(ctx context.Context, p Publication) (Published, error) {
	return Published{}, errNotYet
}

// End commits an end other than success, if the claim still owns the step.
func (s *Store) End(ctx context.Context, e Ending) (Ended, error) { return Ended{}, errNotYet }

// Progress notes how far a running step is. The caller bounds how often.
func (s *Store) Progress(ctx context.Context, c Claim, p Progress) error { return errNotYet }

// EffectBegin returns the stable identifier of a step's effect, and its result if it is already done.
func (s *Store) EffectBegin(ctx context.Context, c Claim, effect string) (Effect, error) {
	return Effect{}, errNotYet
}

// EffectDone records the result of an effect; later executions of the step get it from EffectBegin.
func (s *Store) EffectDone(ctx context.Context, c Claim, id string, result []byte) error {
	return errNotYet
}

// Effect is a call that cannot be undone.
type Effect struct {
	ID     string // to be given to the provider as idempotency key
	Done   bool
	Result []byte
}

// Dispatch sends rows that a commit has returned and marks them. What fails is left to the relay.
func (s *Store) Dispatch(ctx context.Context, to Sender, rows []Outgoing) error { return errNotYet }

// Relay sends what no committer has sent, until ctx ends.
func (s *Store) Relay(ctx context.Context, to Sender) error { return errNotYet }

// Reconcile repairs what no message stands for any more, until ctx ends.
func (s *Store) Reconcile(ctx context.Context, c Counter) error { return errNotYet }

// ReissueAll gives every unfinished step without a live owner a new message. It is for a start with empty queues.
func (s *Store) ReissueAll(ctx context.Context) (int, error) { return 0, errNotYet }

// Job returns one job of a tenant with the history of its steps, or ErrNotFound.
func (s *Store) Job(ctx context.Context, tenant, id string) (Job, error) { return Job{}, errNotYet }

// Jobs lists jobs, newest first, without histories, and the cursor of the next page ("" after the last).
func (s *Store) Jobs(ctx context.Context, f Filter) ([]Job, string, error) {
	return nil, "", errNotYet
}

// Seq returns the change number of a job: when it has grown, something about the job has changed.
func (s *Store) Seq(ctx context.Context, tenant, id string) (int64, error) { return 0, errNotYet }

// Cancel ends a job that has not ended. ErrEnded when it had.
func (s *Store) Cancel(ctx context.Context, tenant, id string) error { return errNotYet }

// ReportWorker records a worker's status.
func (s *Store) ReportWorker(ctx context.Context, w WorkerStatus) error { return errNotYet }

// Workers returns the workers seen within the last age.
func (s *Store) Workers(ctx context.Context, age time.Duration) ([]WorkerStatus, error) {
	return nil, errNotYet
}

// Pause records that a stage, or "all", takes no new work; an empty reason resumes it.
func (s *Store) Pause(ctx context.Context, p PauseEntry) error { return errNotYet }

// Pauses returns the pauses in force.
func (s *Store) Pauses(ctx context.Context) ([]PauseEntry, error) { return nil, errNotYet }

// PauseEntry says who stopped a stage, and why.
type PauseEntry struct {
	Stage  string    `json:"stage"` // or "all"
	Reason string    `json:"reason"`
	Who    string    `json:"who"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero: until resumed
}

// Receive stores a provider's event once and wakes the step that waits for it. False: it was known.
func (s *Store) Receive(ctx context.Context, e Event) (bool, error) { return false, errNotYet }

// Event is what a provider sent.
type Event struct {
	Provider, ID string // together unique
	Effect       string // what it answers
	Body         json.RawMessage
}
