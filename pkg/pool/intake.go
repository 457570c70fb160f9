package pool

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

const (
	batch      = 10 // what one SQS call takes or gives
	maxPollers = 8

	// extraWait is the long poll of all pollers but the first: they exist only while there is a backlog, and must not keep a stop
	// waiting, or take a message that the first could have had, once it is gone.
	extraWait = time.Second

	// gatherSlots is how long a poller of a busy queue waits for slots to gather before it asks for fewer messages.
	gatherSlots = 500 * time.Microsecond

	// receiveSlack is what a receive may take beyond its long poll before it counts as hung.
	receiveSlack = 9 * time.Second

	// settleBacklog is how many messages may be unsettled beyond the slots before receiving stops.
	settleBacklog = 200

	firstReceiveRetry   = 250 * time.Millisecond
	slowestReceiveRetry = 15 * time.Second
)

// intakeState is the state of receiving. It belongs to Pool.mu.
type intakeState struct {
	free    int // slots that nobody has
	want    int // how many free slots the first poller waits for
	pollers int
	gather  int    // how many were free when slots were last taken
	streak  int    // receives in a row that came back full
	reason  string // why the first poller does not receive; empty: it does

	since       time.Time // when that last became empty
	lastSuccess time.Time // of a receive, or the start
	received    bool      // a receive has succeeded
}

// poll receives until the intake ends. The first poller lives as long as the intake; extra ones end when there is no backlog, no
// free slot or no permission.
func (p *Pool) poll(first bool) {
	defer p.pollerGone()
	r := receiver{pool: p, first: first}
	for {
		n, owed := p.reserve(first)
		if n == 0 {
			return
		}
		start := time.Now()
		full, err := r.receive(n, owed)
		took := time.Since(start)
		if err != nil && p.fatal(err) {
			return
		}
		if !first && !full {
			return
		}
		if err != nil && !sleep(p.intake, r.backoff(took)) {
			return
		}
		if full {
			p.mu.Lock()
			p.addPoller()
			p.mu.Unlock()
		}
	}
}

func (p *Pool) pollerGone() {
	p.mu.Lock()
	p.in.pollers--
	gone := p.in.pollers == 0
	p.mu.Unlock()
	if gone {
		close(p.pollsDone)
		p.settled.Fire()
	}
}

// addPoller starts one more while receives keep coming back full and a full batch of slots is free. It is called after a receive and
// as slots come free, for an extra poller goes when it finds too few. It runs under mu.
func (p *Pool) addPoller() {
	if p.in.streak < 2 || p.in.pollers >= maxPollers || p.in.free < p.batch || p.intake.Err() != nil {
		return
	}
	p.in.pollers++
	p.pollers.put(struct{}{})
}

// reserve takes slots for one receive, with the permission of every gate. The first poller waits for them; for an extra one, and at
// the end of the intake, 0 means go.
func (p *Pool) reserve(first bool) (int, *pass) {
	gathered := false
	for p.intake.Err() == nil {
		n, reason := p.takeSlots(gathered)
		if n > 0 {
			granted, owed, refusal := p.admit(n)
			p.takeBack(n-granted, !first)
			if granted > 0 {
				p.waitsFor(first, "")
				return granted, owed
			}
			reason = refusal
		}
		p.waitsFor(first, reason)
		if !first {
			return 0, nil
		}
		gathered = p.awaitSlots(n == 0 && !gathered)
	}
	return 0, nil
}

// takeSlots takes up to a batch of free slots. While a backlog lasts it takes as many as the last time at least, or nothing, unless they
// have been waited for: so slots that come free together are filled by one receive, and no time is lost on those that do not.
func (p *Pool) takeSlots(gathered bool) (n int, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in.want = 1
	n = min(p.in.free, p.batch)
	switch {
	case p.stuck > p.cfg.MaxStuck:
		return 0, reasonStuck
	case n <= 0 || p.held.len >= p.mostHeld():
		return 0, reasonCapacity
	case n < p.in.gather && p.in.streak > 0 && !gathered:
		p.in.want = p.in.gather
		return 0, reasonCapacity
	}
	p.in.free -= n
	p.in.gather = n
	return n, ""
}

// waitsFor notes why the first poller does not receive.
func (p *Pool) waitsFor(first bool, reason string) {
	if !first {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if reason == "" && p.in.reason != "" {
		p.in.since = time.Now()
	}
	p.in.reason = reason
}

// mostHeld is how many messages are held before receiving stops.
func (p *Pool) mostHeld() int { return p.cfg.Slots + settleBacklog }

// takeBack takes back the slots that the gates did not allow. The first poller must not wake itself by that: it waits for the gates.
func (p *Pool) takeBack(n int, wake bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in.free += n
	if wake {
		p.wakeIntake()
	}
}

// returnSlots takes back the slots of messages that did not come.
func (p *Pool) returnSlots(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in.free += n
	if p.in.free >= p.in.want {
		p.wakeIntake()
	}
}

// awaitSlots waits until something may have changed, or for a batch of slots to gather; it reports whether that time is over.
func (p *Pool) awaitSlots(gather bool) bool {
	var patience <-chan time.Time
	p.mu.Lock()
	if gather && p.in.want > 1 {
		t := time.NewTimer(gatherSlots)
		defer t.Stop()
		patience = t.C
	}
	p.mu.Unlock()
	select {
	case <-patience:
		return true
	case <-p.wake:
	case <-p.intake.Done():
	}
	return false
}

// wakeIntake makes the first poller look again. It never blocks.
func (p *Pool) wakeIntake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// receiver makes the receives of one poller.
type receiver struct {
	pool     *Pool
	first    bool
	attempt  string // FIFO: names a receive until it was answered, so that its repetition brings the same messages
	failures int
}

// backoff is the pause after a receive that failed. One that hung has been a pause already.
func (r *receiver) backoff(took time.Duration) time.Duration {
	d := min(firstReceiveRetry<<min(r.failures-1, 10), slowestReceiveRetry)
	return max(0, d/2+rand.N(d/2)-took)
}

func (r *receiver) input(n int, wait time.Duration) *sqs.ReceiveMessageInput {
	in := &sqs.ReceiveMessageInput{
		QueueUrl:                    &r.pool.cfg.QueueURL,
		MaxNumberOfMessages:         int32(n),
		WaitTimeSeconds:             int32(wait / time.Second),
		VisibilityTimeout:           seconds(r.pool.cfg.Visibility),
		MessageAttributeNames:       allAttributes,
		MessageSystemAttributeNames: r.pool.systemAttributes,
	}
	if r.pool.fifo {
		if r.attempt == "" {
			r.attempt = crand.Text()
		}
		in.ReceiveRequestAttemptId = aws.String(r.attempt)
	}
	return in
}

// receive asks for n messages, of which it has the slots, and starts what comes. It is never cut by a stop: a message that the queue
// hands to a dropped connection stays hidden for the whole visibility.
func (r *receiver) receive(n int, owed *pass) (full bool, err error) {
	p := r.pool
	wait := p.cfg.Wait
	if !r.first {
		wait = min(wait, extraWait)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(p.polling, wait+receiveSlack)
	defer cancel()
	out, err := p.sqs.ReceiveMessage(ctx, r.input(n, wait), p.once...)
	now := time.Now()
	p.receiveEnds(n, out, err, now)
	if err != nil {
		r.failures++
		if refused(err) {
			r.attempt = ""
		}
		p.returnSlots(n)
		owed.pay()
		p.cfg.Log.Warn("receive failed", errorType(err))
		return false, err
	}
	r.failures, r.attempt = 0, ""
	// The queue hid the messages when it answered, and it answers no later than the end of the long poll.
	hidden := now
	if end := start.Add(wait); end.Before(now) {
		hidden = end
	}
	p.start(out.Messages, n, owed, hidden, now)
	return len(out.Messages) >= n, nil
}

func (p *Pool) receiveEnds(n int, out *sqs.ReceiveMessageOutput, err error, now time.Time) {
	got := 0
	if err == nil {
		got = len(out.Messages)
	}
	p.metrics.received(n, got, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.in.streak = 0
		return
	}
	p.in.received, p.in.lastSuccess = true, now
	if got >= n {
		p.in.streak++
	} else {
		p.in.streak = 0
	}
}

// start takes in what a receive of n slots brought, and hands the messages to the workers.
func (p *Pool) start(messages []types.Message, n int, owed *pass, hidden, now time.Time) {
	fresh := make([]*held, 0, len(messages))
	p.mu.Lock()
	for i := range messages {
		if h := p.takeIn(&messages[i], hidden, now); h != nil {
			h.pass = owed
			fresh = append(fresh, h)
		}
	}
	if owed != nil {
		owed.left = len(fresh)
	}
	p.pokeKeeper(now.Add(p.cfg.Beat))
	p.mu.Unlock()
	p.returnSlots(n - len(fresh))
	if n := len(messages) - len(fresh); n > 0 {
		p.cfg.Log.Warn("messages received again while held", zap.Int("messages", n))
	}
	if len(fresh) == 0 {
		owed.pay()
		return
	}
	p.workers.put(fresh...)
}

// takeIn makes a held message of a receipt. A second receipt of a message that is already held only brings a newer handle:
// the message is renewed and deleted by it, and not run again. One that has waited and is back before its wait was confirmed is a
// delivery like any other. It runs under mu.
func (p *Pool) takeIn(m *types.Message, hidden, now time.Time) *held {
	until := hidden.Add(p.cfg.Visibility)
	switch h := p.byID[deref(m.MessageId)]; {
	case h == nil:
	case h.hiding && !now.Before(h.backAt):
		p.drop(h)
	default:
		h.handle, h.hiddenUntil, h.handleGone = m.ReceiptHandle, until, false
		p.metrics.duplicates.Inc()
		return nil
	}
	h := &held{
		msg:         message(m, now),
		receivedAt:  hidden,
		handle:      m.ReceiptHandle,
		hiddenUntil: until,
		beatDue:     now.Add(p.cfg.Beat),
	}
	p.byID[h.msg.ID] = h
	p.held.add(h)
	return h
}
