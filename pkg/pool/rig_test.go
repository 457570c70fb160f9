package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pause is time that a handler, or a fault, takes.
func pause(d time.Duration) { time.Sleep(d) }

// settle lets d pass and everything that it causes happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// errHang as a fault makes a call last until its context ends.
var errHang = errors.New("hang")

// call is one call that a pool made, with the moments of its beginning and end.
type call struct {
	op         string // receive, delete, hide, send
	at         time.Duration
	entries    int
	handles    []string
	timeouts   []int32
	bytes      int // of the request
	max        int32
	wait       int32
	attempt    string
	got        int
	err        error
	attributes map[string]types.MessageAttributeValue
}

// rig is a queue server, a queue with its dead letters, and a client that records and can be told to fail. It lives in one bubble.
type rig struct {
	*testing.T
	client *sqs.Client
	queue  string
	dlq    string
	start  time.Time

	mu    sync.Mutex
	calls []call
	fault func(c call) error // instead of the call; nil: call
	after func(c call) error // instead of a good reply
	edit  func(op string, out any)
}

func newRig(t *testing.T, name string, attributes map[string]string) *rig {
	t.Helper()
	r := &rig{T: t, start: time.Now()}
	r.client = sqsclient.New(localsqs.New(localsqs.Options{KeepCancelledPolls: true}))
	suffix := ""
	all := map[string]string{"VisibilityTimeout": "30"}
	dlqAttributes := map[string]string{"MessageRetentionPeriod": "1209600"}
	if strings.HasSuffix(name, ".fifo") {
		suffix = ".fifo"
		all["FifoQueue"], dlqAttributes["FifoQueue"] = "true", "true"
	}
	r.dlq = r.create("dead"+suffix, dlqAttributes)
	for k, v := range attributes {
		if k == "maxReceiveCount" {
			k, v = "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:%s:000000000000:dead%s","maxReceiveCount":%s}`, "us-east-1", suffix, v)
			v = strings.Replace(v, "arn:aws:sqs:us-east-1:000000000000:dead"+suffix, r.arn(r.dlq), 1)
		}
		all[k] = v
	}
	r.queue = r.create(name, all)
	return r
}

func (r *rig) create(name string, attributes map[string]string) string {
	r.Helper()
	out, err := r.client.CreateQueue(r.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		r.Fatal(err)
	}
	return *out.QueueUrl
}

func (r *rig) arn(url string) string { return r.attribute(url, "QueueArn") }

func (r *rig) attribute(url, name string) string {
	r.Helper()
	out, err := r.client.GetQueueAttributes(context.Background(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeName(name)},
	})
	if err != nil {
		r.Fatal(err)
	}
	return out.Attributes[name]
}

func (r *rig) count(url, name string) int {
	r.Helper()
	n, err := strconv.Atoi(r.attribute(url, "ApproximateNumberOfMessages"+name))
	if err != nil {
		r.Fatal(err)
	}
	return n
}

func (r *rig) visible() int { return r.count(r.queue, "") }
func (r *rig) hidden() int  { return r.count(r.queue, "NotVisible") }
func (r *rig) dead() int    { return r.count(r.dlq, "") }

// wantCounts checks what is in the queue and in its dead letters.
func (r *rig) wantCounts(visible, hidden, dead int) {
	r.Helper()
	if v, h, d := r.visible(), r.hidden(), r.dead(); v != visible || h != hidden || d != dead {
		r.Errorf("at %v: visible, hidden, dead = %d, %d, %d, want %d, %d, %d", time.Since(r.start), v, h, d, visible, hidden, dead)
	}
}

func (r *rig) send(bodies ...string) {
	r.Helper()
	for _, body := range bodies {
		in := &sqs.SendMessageInput{QueueUrl: &r.queue, MessageBody: &body}
		if group, _, ok := strings.Cut(body, ":"); ok && strings.HasSuffix(r.queue, ".fifo") { // "group:rest"
			in.MessageGroupId, in.MessageDeduplicationId = &group, aws.String(fmt.Sprint(body, time.Since(r.start)))
		}
		if _, err := r.client.SendMessage(context.Background(), in); err != nil {
			r.Fatal(err)
		}
	}
}

// sendN sends n messages, ten at a time.
func (r *rig) sendN(n int) {
	r.Helper()
	for i := 0; i < n; i += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: &r.queue}
		for j := i; j < min(i+10, n); j++ {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(j)), MessageBody: aws.String(fmt.Sprintf("body %d", j))})
		}
		if out, err := r.client.SendMessageBatch(context.Background(), in); err != nil || len(out.Failed) > 0 {
			r.Fatal(err, out)
		}
	}
}

// peek receives from a queue as somebody else would.
func (r *rig) peek(url string) []types.Message {
	r.Helper()
	out, err := r.client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, VisibilityTimeout: 43200,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		r.Fatal(err)
	}
	return out.Messages
}

// running is a pool that runs.
type running struct {
	*pool.Pool
	r      *rig
	stop   context.CancelFunc
	done   chan struct{}
	report pool.Report
	err    error
}

// run starts a pool on the rig's queue. What the config leaves open is set for short tests: 30 s visibility, 10 s beat.
func (r *rig) run(cfg pool.Config) *running {
	r.Helper()
	p := r.pool(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Pool: p, r: r, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.report, run.err = p.Run(ctx)
	}()
	r.Cleanup(func() { cancel(); <-run.done })
	synctest.Wait()
	return run
}

func (r *rig) pool(cfg pool.Config) *pool.Pool {
	r.Helper()
	if cfg.QueueURL == "" {
		cfg.QueueURL = r.queue
	}
	if cfg.DeadLetterURL == "" {
		cfg.DeadLetterURL = r.dlq
	}
	if cfg.Visibility == 0 {
		cfg.Visibility, cfg.Beat = 30*time.Second, 10*time.Second
	}
	if cfg.Handler == nil {
		cfg.Handler = func(context.Context, pool.Message) error { return nil }
	}
	p, err := pool.New(r, cfg)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// ended tells whether Run has returned.
func (run *running) ended() bool {
	select {
	case <-run.done:
		return true
	default:
		return false
	}
}

// drained stops the pool, waits for it and checks its report.
func (run *running) drained(want pool.Report) {
	run.r.Helper()
	run.stop()
	<-run.done
	if run.report != want {
		run.r.Errorf("report = %+v, want %+v (error %v)", run.report, want, run.err)
	}
}

// made returns the calls of one kind so far.
func (r *rig) made(op string) []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of []call
	for _, c := range r.calls {
		if c.op == op {
			of = append(of, c)
		}
	}
	return of
}

// entries sums the entries of the calls of one kind that succeeded.
func (r *rig) entries(op string) (n int) {
	for _, c := range r.made(op) {
		if c.err == nil {
			n += c.entries
		}
	}
	return n
}

// received is how many messages the pools were given.
func (r *rig) received() (n int) {
	for _, c := range r.made("receive") {
		n += c.got
	}
	return n
}

func (r *rig) moments(op string) (at []time.Duration) {
	for _, c := range r.made(op) {
		at = append(at, c.at)
	}
	return at
}

func (r *rig) wantMoments(op string, want ...time.Duration) {
	r.Helper()
	if got := r.moments(op); !slices.Equal(got, want) {
		r.Errorf("%s calls at %v, want %v", op, got, want)
	}
}

// fail makes calls fail from now on, as the function says; nil ends that.
func (r *rig) fail(fault func(c call) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

// edits changes the answers of successful calls from now on.
func (r *rig) edits(edit func(op string, out any)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edit = edit
}

func (r *rig) do(ctx context.Context, c call, forward func() (int, any, error)) error {
	c.at = time.Since(r.start)
	r.mu.Lock()
	fault, i := r.fault, len(r.calls)
	r.calls = append(r.calls, c)
	after, edit := r.after, r.edit
	r.mu.Unlock()
	err := ctx.Err()
	if err == nil && fault != nil {
		err = fault(c)
	}
	if errors.Is(err, errHang) {
		<-ctx.Done()
		err = ctx.Err()
	}
	got := 0
	if err == nil {
		var out any
		if got, out, err = forward(); err == nil && after != nil {
			err = after(c)
		}
		if err == nil && edit != nil {
			edit(c.op, out)
		}
	}
	r.mu.Lock()
	r.calls[i].got, r.calls[i].err = got, err
	r.mu.Unlock()
	return err
}

func (r *rig) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options)) (out *sqs.ReceiveMessageOutput, err error) {
	c := call{op: "receive", max: in.MaxNumberOfMessages, wait: in.WaitTimeSeconds, attempt: aws.ToString(in.ReceiveRequestAttemptId)}
	err = r.do(ctx, c, func() (int, any, error) {
		if out, err = r.client.ReceiveMessage(ctx, in, opts...); err != nil {
			return 0, nil, err
		}
		return len(out.Messages), out, nil
	})
	return out, err
}

func (r *rig) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, opts ...func(*sqs.Options)) (out *sqs.DeleteMessageBatchOutput, err error) {
	c := call{op: "delete", entries: len(in.Entries)}
	for _, e := range in.Entries {
		c.handles = append(c.handles, *e.ReceiptHandle)
	}
	err = r.do(ctx, c, func() (int, any, error) {
		out, err = r.client.DeleteMessageBatch(ctx, in, opts...)
		return 0, out, err
	})
	return out, err
}

func (r *rig) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, opts ...func(*sqs.Options)) (out *sqs.ChangeMessageVisibilityBatchOutput, err error) {
	body, err := json.Marshal(in) // as the SDK names and writes the fields
	c := call{op: "hide", entries: len(in.Entries), bytes: len(body), err: err}
	for _, e := range in.Entries {
		c.handles, c.timeouts = append(c.handles, *e.ReceiptHandle), append(c.timeouts, e.VisibilityTimeout)
	}
	err = r.do(ctx, c, func() (int, any, error) {
		out, err = r.client.ChangeMessageVisibilityBatch(ctx, in, opts...)
		return 0, out, err
	})
	return out, err
}

func (r *rig) SendMessage(ctx context.Context, in *sqs.SendMessageInput, opts ...func(*sqs.Options)) (out *sqs.SendMessageOutput, err error) {
	err = r.do(ctx, call{op: "send", entries: 1, attributes: in.MessageAttributes}, func() (int, any, error) {
		out, err = r.client.SendMessage(ctx, in, opts...)
		return 0, out, err
	})
	return out, err
}

// notThere is what the SDK returns for a queue that does not exist.
type notThere struct{ types.QueueDoesNotExist }

func (r *rig) wantDead(n int) {
	r.Helper()
	if d := r.dead(); d != n {
		r.Errorf("%d dead letters, want %d", d, n)
	}
}
