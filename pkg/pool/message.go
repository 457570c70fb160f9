package pool

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Message is one delivery. It is a value: what a middleware does to it changes nothing for the pool.
type Message struct {
	ID         string
	Body       string
	GroupID    string // FIFO group, or the tenant of a fair queue
	DedupID    string // FIFO only
	Attributes map[string]types.MessageAttributeValue
	Receives   int       // deliveries so far, this one included
	SentAt     time.Time // by the queue's clock
	ReceivedAt time.Time // by ours
	Attempt    int       // 1-based number that this execution has if it counts; without a Ledger it equals Receives
	Grant      any       // Grant.Value, as the Ledger gave it; nil without one
}

// Handler does the work of one message. It returns nil when the work is done; package outcome has the other ends. It must return
// soon after its context ends; context.Cause then says why. Handlers run concurrently, up to Config.Slots of them.
type Handler func(ctx context.Context, m Message) error

// Middleware wraps a Handler. The first of Config.Middleware is the outermost. What the outermost handler returns first is the end
// of the delivery, whatever a middleware still has running.
type Middleware func(Handler) Handler

// Settlement is what the pool does with a message when its execution has ended, or is refused.
type Settlement struct {
	Action Action
	After  time.Duration // Hide: how long; rounded up to whole seconds, cut at what SQS still allows
	Reason string        // a short code in snake_case
}

// Action is one of the four ways to settle a message.
type Action string

// The ways to settle.
const (
	Delete     Action = "delete"      // the queue's part is over
	Hide       Action = "hide"        // deliver it again after After; 0: at once
	DeadLetter Action = "dead_letter" // copy it to the dead-letter queue with its reason, then delete it
	Leave      Action = "leave"       // touch nothing: another receipt owns it, or its visibility ends by itself
)

// Ledger is the record that alone permits an execution. A pool without one counts receives as attempts, retries by visibility and
// takes a message's visibility for its lease. All methods are called concurrently.
type Ledger interface {
	// Claim asks to execute m. A *Refusal is no attempt and says what to do with the message instead. Any other error means that the
	// record cannot be reached: the message is hidden and nothing more is received until Ping succeeds.
	Claim(ctx context.Context, m Message) (Grant, error)
	// Renew lengthens every grant to its Lease, counted from before the call. The result is positional; nil renews, ErrLeaseLost,
	// ErrSuperseded and ErrCancelled of package outcome end the handler with that cause, other errors are tried again within seconds.
	Renew(ctx context.Context, grants []Grant) ([]error, error)
	// Close records the end of an execution, nil being success, and says what to do with its message. It is called once the handler
	// has returned, and again, with the same arguments, while it fails and the lease lasts.
	Close(ctx context.Context, g Grant, end error) (Settlement, error)
	// Ping tells whether the record can be reached.
	Ping(ctx context.Context) error
}

// Grant is the permission to execute one message.
type Grant struct {
	Attempt int               // see Message.Attempt
	Lease   time.Duration     // how long it lasts from before Claim or Renew; 0: as long as the message is hidden
	Value   any               // the Ledger's own; handlers see it as Message.Grant
	IDs     map[string]string // identities for logs and spans (job, version ...); never data
}

// Refusal is the error of a Claim that says no.
type Refusal struct {
	Settlement Settlement
}

func (r *Refusal) Error() string { return "claim refused: " + r.Settlement.Reason }

// Gate is asked before every receive. It must not block.
type Gate interface {
	// Admit asks for up to want messages and returns how many may be asked for. 0 means none now; reason says why, from a small fixed
	// vocabulary. done may be nil; else it is called once, when the receive brought nothing or its last message has been settled or given up.
	Admit(want int) (n int, done func(), reason string)
	// Changed returns a channel that is closed when a refusal may no longer hold. It is asked for before Admit.
	Changed() <-chan struct{}
}

// Protector keeps the process from being taken away while it works. Enter is called before each handler starts, and returns within
// a few seconds whether or not it succeeded; Leave is called once for each, after its message has been settled or its handler given
// up as stuck.
type Protector interface {
	Enter(ctx context.Context)
	Leave()
}

// Report says what became of the messages that were held when Run was told to stop.
type Report struct {
	Finished  int // handler returned and its end was recorded
	Released  int // given back: never started, or interrupted
	Abandoned int // neither: their handlers had not returned, or the queue or record did not answer; they reappear by themselves
}
