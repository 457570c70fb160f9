package localsqs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

// The model's queues: short times, so that a few steps reach every edge.
const (
	modelVisibility = 3 * time.Second
	modelDelay      = time.Second
	modelRetention  = 60 * time.Second
	modelReceives   = 2 // below the count at which a standard queue puts messages to its back
)

// modelMessage is one message of the model, which is a plain list that is searched from the front.
type modelMessage struct {
	body     string
	group    string
	expires  time.Time
	due      time.Time // delayed or hidden until
	receives int
	inFlight bool
	handle   string // of the latest delivery
}

type model struct {
	fifo     bool
	messages []*modelMessage
	dead     []string
	deduped  map[string]time.Time
}

// pass lets the model's time go on.
func (m *model) pass() {
	now := time.Now()
	m.messages = slices.DeleteFunc(m.messages, func(x *modelMessage) bool { return !now.Before(x.expires) })
	for _, x := range m.messages {
		if x.inFlight && !now.Before(x.due) {
			x.inFlight = false
		}
	}
	for id, at := range m.deduped {
		if !now.Before(at.Add(5 * time.Minute)) {
			delete(m.deduped, id)
		}
	}
}

func (m *model) visible(x *modelMessage) bool { return !x.inFlight && !time.Now().Before(x.due) }

func (m *model) locked(group string) bool {
	return m.fifo && slices.ContainsFunc(m.messages, func(x *modelMessage) bool { return x.group == group && x.inFlight })
}

// available is what a receive without a maximum could return, in FIFO order, after moving the dead away.
func (m *model) available() (all []*modelMessage) {
	m.pass()
	locks := map[string]bool{}
	for _, x := range m.messages {
		locks[x.group] = m.locked(x.group)
	}
	for _, x := range m.messages {
		if m.visible(x) && !locks[x.group] {
			all = append(all, x)
		}
	}
	if !m.fifo {
		return all
	}
	// A receive takes all it can from the group with the oldest message, then from the next.
	first := map[string]int{}
	for i, x := range all {
		if _, ok := first[x.group]; !ok {
			first[x.group] = i
		}
	}
	slices.SortStableFunc(all, func(a, b *modelMessage) int { return first[a.group] - first[b.group] })
	return all
}

func (m *model) remove(x *modelMessage) {
	m.messages = slices.DeleteFunc(m.messages, func(y *modelMessage) bool { return x == y })
}

// machine drives a server and the model through the same steps.
type machine struct {
	model
	tb     testing.TB
	server *localsqs.Server
	dir    string // where the server keeps its state, if it may be killed
	client *sqs.Client
	url    *string
	dlq    *string
	sends  int
	stale  []string // handles that are not the latest of any message
}

func newMachine(tb testing.TB, fifo bool, dir string) *machine {
	s := &machine{model: model{fifo: fifo, deduped: map[string]time.Time{}}, tb: tb, dir: dir}
	s.start()
	suffix, attrs := "", map[string]string{}
	if fifo {
		suffix, attrs["FifoQueue"] = ".fifo", "true"
	}
	s.dlq = create(tb, s.client, "dead"+suffix, attrs)
	attrs["VisibilityTimeout"], attrs["MessageRetentionPeriod"] = "3", "60"
	attrs["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead%s","maxReceiveCount":%d}`, suffix, modelReceives)
	s.url = create(tb, s.client, "q"+suffix, attrs)
	return s
}

func (s *machine) start() {
	s.server = localsqs.New(localsqs.Options{})
	if s.dir != "" {
		s.server = must[*localsqs.Server](s.tb)(localsqs.Open(s.dir, localsqs.Options{}))
	}
	s.client = sqsclient.New(s.server)
}

// kill goes on with a server that has only what the old one had written.
func (s *machine) kill(t *rapid.T) {
	if s.dir == "" || rapid.IntRange(0, 3).Draw(t, "patience") > 0 {
		t.Skip("lives on")
	}
	old := s.server
	next := filepath.Join(s.tb.TempDir(), "next")
	if err := os.CopyFS(next, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	s.dir = next
	s.start()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
}

func (s *machine) send(t *rapid.T) {
	in := &sqs.SendMessageInput{QueueUrl: s.url}
	s.sends++
	x := &modelMessage{body: fmt.Sprint(s.sends), expires: time.Now().Add(modelRetention), due: time.Now()}
	in.MessageBody = &x.body
	duplicate := false
	if s.fifo {
		x.group = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
		id := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "dedup"))
		in.MessageGroupId, in.MessageDeduplicationId = &x.group, &id
		s.pass()
		if _, duplicate = s.deduped[id]; !duplicate {
			s.deduped[id] = time.Now()
		}
	} else if rapid.Bool().Draw(t, "delayed") {
		in.DelaySeconds, x.due = int32(modelDelay/time.Second), time.Now().Add(modelDelay)
	}
	if _, err := s.client.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if !duplicate {
		s.messages = append(s.messages, x)
	}
}

func (s *machine) receive(t *rapid.T) {
	n := rapid.IntRange(1, 10).Draw(t, "max")
	out, err := s.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: s.url, MaxNumberOfMessages: int32(n)})
	if err != nil {
		t.Fatal(err)
	}
	want := s.expect(n)
	if got := len(out.Messages); got != len(want) {
		t.Fatalf("received %d, model has %d", got, len(want))
	}
	for i, got := range out.Messages {
		x := want[i]
		if x.body != *got.Body {
			t.Fatalf("received %s, model has %s", *got.Body, x.body)
		}
		if x.handle != "" {
			s.stale = append(s.stale, x.handle)
		}
		x.receives++
		x.inFlight, x.due, x.handle = true, time.Now().Add(modelVisibility), *got.ReceiptHandle
	}
}

// expect is what a receive of n returns. The exhausted messages that it passes move to the dead-letter queue.
func (s *machine) expect(n int) (want []*modelMessage) {
	for _, x := range s.available() {
		if len(want) == n {
			break
		}
		if x.receives >= modelReceives {
			s.dead = append(s.dead, x.body)
			s.remove(x)
			continue
		}
		want = append(want, x)
	}
	return want
}

func (s *machine) anyHandle(t *rapid.T) (*modelMessage, bool) {
	s.pass()
	var held []*modelMessage
	for _, x := range s.messages {
		if x.handle != "" {
			held = append(held, x)
		}
	}
	if len(held) == 0 {
		return nil, false
	}
	return rapid.SampledFrom(held).Draw(t, "message"), true
}

func (s *machine) settle(t *rapid.T) {
	x, ok := s.anyHandle(t)
	if !ok {
		return
	}
	_, err := s.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: s.url, ReceiptHandle: &x.handle})
	if refused := s.fifo && !x.inFlight; (err != nil) != refused {
		t.Fatalf("delete of %s: %v, in flight is %v", x.body, err, x.inFlight)
	} else if !refused {
		s.remove(x)
	}
}

func (s *machine) settleStale(t *rapid.T) {
	if len(s.stale) == 0 {
		return
	}
	handle := rapid.SampledFrom(s.stale).Draw(t, "stale")
	_, _ = s.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: s.url, ReceiptHandle: &handle})
}

func (s *machine) extend(t *rapid.T) {
	x, ok := s.anyHandle(t)
	if !ok {
		return
	}
	seconds := rapid.IntRange(0, 5).Draw(t, "seconds")
	_, err := s.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: s.url, ReceiptHandle: &x.handle, VisibilityTimeout: int32(seconds)})
	if (err == nil) != x.inFlight {
		t.Fatalf("extension of %s: %v, in flight is %v", x.body, err, x.inFlight)
	}
	if err == nil {
		x.due, x.inFlight = time.Now().Add(time.Duration(seconds)*time.Second), seconds > 0
	}
}

func (s *machine) wait(t *rapid.T) {
	settle(time.Duration(rapid.SampledFrom([]int{1, 500, 1000, 3000, 20_000}).Draw(t, "ms")) * time.Millisecond)
}

// check compares the counts after every step.
func (s *machine) check(t *rapid.T) {
	s.pass()
	var visible, hidden, delayed int
	for _, x := range s.messages {
		switch {
		case x.inFlight:
			hidden++
		case s.visible(x):
			visible++
		default:
			delayed++
		}
	}
	out, err := s.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: s.url, AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(out.Attributes["ApproximateNumberOfMessages"], out.Attributes["ApproximateNumberOfMessagesNotVisible"], out.Attributes["ApproximateNumberOfMessagesDelayed"])
	if want := fmt.Sprint(fmt.Sprint(visible), fmt.Sprint(hidden), fmt.Sprint(delayed)); got != want {
		t.Fatalf("counts are %s, model has %s", got, want)
	}
}

// bury checks at the end that exactly the model's dead are in the dead-letter queue.
func (s *machine) bury(t *rapid.T) {
	var got []string
	for {
		out, err := s.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: s.dlq, MaxNumberOfMessages: 10, VisibilityTimeout: 600})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			break
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: s.dlq}
		for i, m := range out.Messages {
			got = append(got, *m.Body)
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
		}
		if _, err := s.client.DeleteMessageBatch(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	slices.Sort(s.dead)
	if strings.Join(got, " ") != strings.Join(s.dead, " ") {
		t.Fatalf("dead are %v, model has %v", got, s.dead)
	}
}

// inBubble hides the test's real deadline, which means nothing on a bubble's clock.
type inBubble struct{ testing.TB }

func TestServerFollowsTheModel(t *testing.T) {
	for name, fifo := range map[string]bool{"standard": false, "fifo": true} {
		for place, durable := range map[string]bool{"in memory": false, "killed at times": true} {
			t.Run(name+" "+place, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { followModel(t, fifo, durable) }) })
		}
	}
}

func followModel(t *testing.T, fifo, durable bool) {
	rapid.Check(inBubble{t}, func(rt *rapid.T) {
		dir := ""
		if durable {
			dir = t.TempDir()
		}
		s := newMachine(t, fifo, dir)
		defer func() { _ = s.server.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"send": s.send, "send more": s.send, "receive": s.receive, "delete": s.settle, "delete stale": s.settleStale,
			"change visibility": s.extend, "wait": s.wait, "kill": s.kill, "": s.check,
		})
		s.bury(rt)
	})
}
