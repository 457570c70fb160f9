package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// A copy of this test binary with childRole set is a process that may be killed or frozen. It reaches the queues, the
// provider and the test itself at childSocket, and stops there at named points until the test lets it go on.
const (
	childRole   = "FLEET_TEST_CHILD"
	childSocket = "FLEET_TEST_SOCKET"
	childURL    = "FLEET_TEST_URL"
	childName   = "FLEET_TEST_NAME"

	childLeaseFor = "FLEET_TEST_LEASE"
)

// Points at which a child asks to go on.
const (
	pointReceived      = "received"
	pointClaimed       = "claimed"
	pointCalled        = "called the provider"
	pointWorked        = "worked"
	pointPublished     = "published"
	pointSent          = "sent"
	pointMarked        = "marked"
	pointEnded         = "ended"
	pointRedriven      = "redriven"
	pointReceivedEvent = "received the event"

	// With what the child is doing: inside the transaction, all of it decided and written, and after it while nobody has the answer.
	pointCommitting = "committing "
	pointCommitted  = "committed "
)

// What a child is doing.
const (
	doingClaim   = "a claim"
	doingPublish = "a publication"
	doingEnd     = "an end"
	doingRedrive = "a redrive"
	doingEvent   = "an event"
)

// Dice of the provider that decide what an execution comes to; every other one is a success.
const (
	diceFail = iota
	diceDefer
	diceDrain
	dicePlain = 9
	diceBug   = 20
	diceAwait = 21
)

const childLease = 1500 * time.Millisecond

type child struct {
	ctx   context.Context
	name  string
	lease time.Duration
	s     *job.Store
	host  *rpc.Client
	doing string // empty: its commits are no points
}

func runChild(role string) int {
	c := &child{ctx: context.Background(), name: os.Getenv(childName)}
	var err error
	if c.lease, err = time.ParseDuration(os.Getenv(childLeaseFor)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if c.host, err = rpc.Dial("unix", os.Getenv(childSocket)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	opt := job.Options{ReconcileEvery: 200 * time.Millisecond}
	for c.s, err = job.Open(c.ctx, os.Getenv(childURL), opt); err != nil; c.s, err = job.Open(c.ctx, os.Getenv(childURL), opt) {
		fmt.Fprintln(os.Stderr, c.name, err)
		c.wait(100 * time.Millisecond)
	}
	c.s.Inject(c.commits)
	roles := map[string]func() error{"worker": c.work, "one": c.workOnce, "server": c.serve, "redrive": c.redrive, "event": c.event}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, c.name, err)
		return 1
	}
	return 0
}

// at stops here until the test lets the child go on.
func (c *child) at(point string) (goOn bool) {
	if err := c.host.Call("Host.At", c.name+"\x00"+point, &goOn); err != nil {
		os.Exit(3) // the test is over
	}
	return goOn
}

// commits makes points of the two moments around a commit.
func (c *child) commits(write, committed bool) error {
	switch {
	case !write || c.doing == "":
	case committed && !c.at(pointCommitted+c.doing):
		return errCut
	case committed:
	default:
		c.at(pointCommitting + c.doing)
	}
	return nil
}

func (c *child) wait(d time.Duration) {
	<-time.After(d)
}

// Send makes the child a Sender.
func (c *child) Send(_ context.Context, rows []job.Outgoing) []error {
	errs := make([]error, len(rows))
	var ok bool
	if err := c.host.Call("Host.Send", rows, &ok); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	c.at(pointSent)
	return errs
}

func (c *child) Count(_ context.Context, queue string) (visible, inFlight, delayed int64, err error) {
	err = c.host.Call("Host.Count", queue, &visible)
	return visible, 0, 0, err
}

func (c *child) serve() error {
	go func() { _ = c.s.Reconcile(c.ctx, c) }()
	return c.s.Relay(c.ctx, c)
}

func (c *child) redrive() error {
	var id string
	if err := c.host.Call("Host.Argument", "", &id); err != nil {
		return err
	}
	c.doing = doingRedrive
	err := c.s.Redrive(c.ctx, id, c.name)
	c.doing = ""
	if err != nil && !errors.Is(err, job.ErrEnded) {
		return err
	}
	c.at(pointRedriven)
	if err := c.s.Dispatch(c.ctx, c, c.s.Handed()); err != nil {
		return err
	}
	c.at(pointMarked)
	return nil
}

// event reports what a provider said.
func (c *child) event() error {
	var raw string
	if err := c.host.Call("Host.Argument", "", &raw); err != nil {
		return err
	}
	var e job.Event
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		return err
	}
	c.doing = doingEvent
	_, err := c.s.Receive(c.ctx, e)
	c.doing = ""
	if err != nil {
		return err
	}
	c.at(pointReceivedEvent)
	return c.s.Dispatch(c.ctx, c, c.s.Handed())
}

func (c *child) work() error {
	for {
		if err := c.workOnce(); err != nil {
			fmt.Fprintln(os.Stderr, c.name, err)
			c.wait(20 * time.Millisecond)
		}
	}
}

// workOnce takes one message, if there is one, through its whole life.
func (c *child) workOnce() error {
	var m Received
	if err := c.host.Call("Host.Receive", "", &m); err != nil {
		return err
	}
	if m.Receipt == "" {
		c.wait(5 * time.Millisecond)
		return nil
	}
	c.at(pointReceived)
	stage := m.Row.Queue[len("q-"):]
	r := request(m.Row, stage)
	r.Worker, r.Lease, r.MaxCrashes = c.name, c.lease, 1000
	claim, err := c.claim(r)
	if no, ok := errors.AsType[*job.ClaimRefused](err); ok {
		return c.settle(m, no.Settle)
	}
	if err != nil {
		return err
	}
	c.at(pointClaimed)
	publication, end := c.handle(claim)
	c.at(pointWorked)
	if end != nil {
		return c.end(m, claim, end)
	}
	c.doing = doingPublish
	got, err := c.s.Publish(c.ctx, publication)
	c.doing = ""
	if err != nil {
		return err
	}
	c.at(pointPublished)
	if err := c.s.Dispatch(c.ctx, c, got.Outgoing); err != nil {
		return err
	}
	c.at(pointMarked)
	return c.settle(m, got.Settle)
}

// claim is bounded as in production, and a ping follows when it failed.
func (c *child) claim(r job.ClaimRequest) (job.Claim, error) {
	ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
	defer cancel()
	c.doing = doingClaim
	claim, err := c.s.Claim(ctx, r)
	c.doing = ""
	if _, refused := errors.AsType[*job.ClaimRefused](err); err == nil || refused {
		return claim, err
	}
	for c.s.Ping(c.ctx) != nil {
		c.wait(50 * time.Millisecond)
	}
	return claim, err
}

func (c *child) end(m Received, claim job.Claim, end error) error {
	v := outcome.Of(end)
	policy := outcome.Policy{MaxAttempts: 1000, Waits: []time.Duration{10 * time.Millisecond}}
	c.doing = doingEnd
	got, err := c.s.End(c.ctx, job.Ending{Claim: claim, Verdict: v, Action: policy.Decide(v, claim.Attempt, 0), ReceivesAtLimit: m.Receives%3 == 0})
	c.doing = ""
	if err != nil {
		return err
	}
	c.at(pointEnded)
	if err := c.s.Dispatch(c.ctx, c, got.Outgoing); err != nil {
		return err
	}
	return c.settle(m, got.Settle)
}

func (c *child) settle(m Received, s job.Settle) error {
	var ok bool
	switch s.Do {
	case job.Delete:
		return c.host.Call("Host.Delete", m.Receipt, &ok)
	case job.Hide:
		return c.host.Call("Host.Hide", Hidden{m.Receipt, s.After}, &ok)
	default:
		return nil
	}
}

// ends are what dice other than of success stand for.
var ends = map[int]func(effect string) error{
	diceFail:  func(string) error { return errBoom },
	diceDefer: func(string) error { return outcome.Defer(5*time.Millisecond, "later") },
	diceDrain: func(string) error { return outcome.ErrDraining },
	diceBug:   func(string) error { return outcome.Quarantine("bug", nil) },
	diceAwait: func(effect string) error { return outcome.Await(effect, time.Now().Add(time.Hour)) },
}

// handle is the stage's work: an effect that cannot be undone, now and then a failure, and an output.
func (c *child) handle(claim job.Claim) (job.Publication, error) {
	p := job.Publication{Claim: claim, Output: json.RawMessage(fmt.Sprintf(`{"of":%q}`, claim.Step))}
	effect, err := c.s.EffectBegin(c.ctx, claim, "pay")
	if errors.Is(err, job.ErrNotOwner) {
		err = outcome.ErrLeaseLost // as package worker tells its handler
	}
	if err != nil {
		return p, err
	}
	if !effect.Done && claim.Event == nil {
		var dice int
		if err := c.host.Call("Host.Pay", effect.ID, &dice); err != nil {
			return p, err
		}
		c.at(pointCalled)
		if dice > dicePlain { // the provider has not done it
			return p, ends[dice](effect.ID)
		}
		if err := c.s.EffectDone(c.ctx, claim, effect.ID, []byte("paid")); err != nil {
			return p, err
		}
		if end := ends[dice]; end != nil {
			return p, end(effect.ID)
		}
	}
	switch claim.Stage {
	case "ingest":
		p.FanOut, p.Next, p.Join = true, next("compile"), next("publish")
		p.Parts = []json.RawMessage{[]byte(`0`), []byte(`1`), []byte(`2`)}
	case "compile":
		p.Next = next("publish")
	case "publish":
		p.Result = &job.Result{Dir: claim.Key}
	}
	return p, nil
}
