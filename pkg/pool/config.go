package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// SQS is what the pool needs of *sqs.Client. The pool brings its own retries and ends its calls itself. If the client's HTTP client has a
// timeout, that must be well above Config.Wait: a poll that it cuts may have been handed messages, which then lie hidden.
type SQS interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Defaults of the fields of Config that are zero.
const (
	DefaultSlots      = 10
	DefaultVisibility = 7 * time.Minute
	DefaultBeat       = 3 * time.Minute
	DefaultWait       = 20 * time.Second
	DefaultDrain      = 30 * time.Second
	DefaultGrace      = 3 * time.Second
	DefaultSettle     = 8 * time.Second
	DefaultStuckAfter = 30 * time.Second
)

// maxHidden is the longest that SQS keeps a message hidden, counted from its receive (SQS API reference, ChangeMessageVisibility).
const maxHidden = 12 * time.Hour

// Config is the whole of a pool. QueueURL and Handler are required.
type Config struct {
	Name          string // names the pool in metrics, logs and spans; empty: the queue's name
	QueueURL      string // a name that ends in .fifo makes the pool ask for one message at a time
	DeadLetterURL string // where quarantined messages go, a queue of the same type; empty: they stay until the queue's own redrive policy moves them
	Handler       Handler
	Middleware    []Middleware

	Slots      int           // handlers at the same time; 0: DefaultSlots
	Visibility time.Duration // how long a message is hidden at a time; whole seconds, 2 s to 12 h; 0: DefaultVisibility
	Beat       time.Duration // how often that is renewed; at most half of Visibility; 0: DefaultBeat, less for a short Visibility
	Wait       time.Duration // the long poll; whole seconds, 1 s to 20 s, and at most Drain; 0: DefaultWait, less for a short Drain
	TimeLimit  time.Duration // for one handler; at most 12 h less Visibility; 0: none but the queue's 12 hours
	StuckAfter time.Duration // after the end of its context a handler that has not returned is reported, and its slot replaced; at most 12 h; 0: DefaultStuckAfter
	MaxStuck   int           // how many slots are replaced before the pool stops receiving; 0: as many as Slots

	Drain  time.Duration // after the stop, handlers may go on this long; 1 s to 12 h; 0: DefaultDrain
	Grace  time.Duration // then their contexts end and they have this long to return; at most 12 h; 0: DefaultGrace
	Settle time.Duration // then the ends must have been recorded and the messages settled; at most 12 h; 0: DefaultSettle

	Policy      outcome.Policy // used without a Ledger
	MaxReceives int            // the queue's maxReceiveCount; 0: unknown. With a Ledger, a message at this count is given back through it alone
	Ledger      Ledger         // nil: see Ledger
	Gates       []Gate         // all must agree to a receive
	Protector   Protector      // nil: none

	Log     *zap.Logger           // nil: silent
	Metrics prometheus.Registerer // nil: counted, not exported
	Tracer  trace.TracerProvider  // nil: no spans
}

func (c Config) withDefaults() Config {
	setDefault(&c.Name, c.QueueURL[strings.LastIndexByte(c.QueueURL, '/')+1:])
	setDefault(&c.Slots, DefaultSlots)
	setDefault(&c.Visibility, DefaultVisibility)
	setDefault(&c.Beat, min(DefaultBeat, c.Visibility*3/7))
	setDefault(&c.Drain, DefaultDrain)
	setDefault(&c.Wait, min(DefaultWait, c.Drain.Truncate(time.Second)))
	setDefault(&c.Grace, DefaultGrace)
	setDefault(&c.Settle, DefaultSettle)
	setDefault(&c.StuckAfter, DefaultStuckAfter)
	setDefault(&c.MaxStuck, c.Slots)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

func setDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// Validate reports the first field that cannot work, with its value and bound. Zero fields stand for their defaults.
func (c Config) Validate() error {
	if c.QueueURL == "" {
		return fmt.Errorf("QueueURL is empty, must be the URL of a queue")
	}
	if c.Handler == nil {
		return fmt.Errorf("Handler is nil, must be set")
	}
	if i := slices.IndexFunc(c.Middleware, func(m Middleware) bool { return m == nil }); i >= 0 {
		return fmt.Errorf("Middleware[%d] is nil, must be set", i)
	}
	if i := slices.Index(c.Gates, nil); i >= 0 {
		return fmt.Errorf("Gates[%d] is nil, must be set", i)
	}
	if c.DeadLetterURL == c.QueueURL || c.DeadLetterURL != "" && isFIFO(c.DeadLetterURL) != isFIFO(c.QueueURL) {
		return fmt.Errorf("DeadLetterURL is %s, must be another queue of the same type", c.DeadLetterURL)
	}
	c = c.withDefaults()
	if err := c.Policy.Validate(); err != nil {
		return fmt.Errorf("Policy.%w", err)
	}
	return c.validateNumbers()
}

func isFIFO(url string) bool { return strings.HasSuffix(url, ".fifo") }

func (c Config) validateNumbers() error {
	for _, f := range []struct {
		name          string
		value, lo, hi time.Duration
		whole         bool
	}{
		{"Visibility", c.Visibility, 2 * time.Second, maxHidden, true},
		{"Beat", c.Beat, 1, c.Visibility / 2, false},
		{"Drain", c.Drain, time.Second, maxHidden, false},
		{"Wait", c.Wait, time.Second, min(20*time.Second, c.Drain), true},
		{"TimeLimit", c.TimeLimit, 0, maxHidden - c.Visibility, false},
		{"StuckAfter", c.StuckAfter, 1, maxHidden, false},
		{"Grace", c.Grace, 0, maxHidden, false},
		{"Settle", c.Settle, 1, maxHidden, false},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%s is %v, must be between %v and %v", f.name, f.value, f.lo, f.hi)
		}
		if f.whole && f.value%time.Second != 0 {
			return fmt.Errorf("%s is %v, must be whole seconds", f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value int
		lo    int
	}{{"Slots", c.Slots, 1}, {"MaxStuck", c.MaxStuck, 0}, {"MaxReceives", c.MaxReceives, 0}} {
		if f.value < f.lo {
			return fmt.Errorf("%s is %d, must be %d or more", f.name, f.value, f.lo)
		}
	}
	return nil
}
