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
)

// Points at which a child asks to go on.
const (
	pointReceived  = "received"
	pointClaimed   = "claimed"
	pointCalled    = "called the provider"
	pointWorked    = "worked"
	pointPublished = "published"
	pointSent      = "sent"
	pointMarked    = "marked"
	pointEnded     = "ended"
	pointRedriven  = "redriven"
)

const childLease = 1500 * time.Millisecond

type child struct {
	ctx  context.Context
	name string
	s    *job.Store
	host *rpc.Client
}

func runChild(role string) int {
	c := child{ctx: context.Background(), name: os.Getenv(childName)}
	var err error
	if c.host, err = rpc.Dial("unix", os.Getenv(childSocket)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	opt := job.Options{ReconcileEvery: 200 * time.Millisecond}
	for c.s, err = job.Open(c.ctx, os.Getenv(childURL), opt); err != nil; c.s, err = job.Open(c.ctx, os.Getenv(childURL), opt) {
		fmt.Fprintln(os.Stderr, c.name, err)
		c.wait(100 * time.Millisecond)
	}
	roles := map[string]func() error{"worker": c.work, "one": c.workOnce, "server": c.serve, "redrive": c.redrive}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, c.name, err)
		return 1
	}
	return 0
}

// at stops here until the test lets the child go on.
func (c child) at(point string) {
	var goOn bool
	if err := c.host.Call("Host.At", c.name+"\x00"+point, &goOn); err != nil {
		os.Exit(3) // the test is over
	}
}

func (c child) wait(d time.Duration) {
	<-time.After(d)
}

// Send makes the child a Sender.
func (c child) Send(_ context.Context, rows []job.Outgoing) []error {
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

func (c child) Count(_ context.Context, queue string) (visible, inFlight, delayed int64, err error) {
	err = c.host.Call("Host.Count", queue, &visible)
	return visible, 0, 0, err
}

func (c child) serve() error {
	go func() { _ = c.s.Reconcile(c.ctx, c) }()
	return c.s.Relay(c.ctx, c)
}

func (c child) redrive() error {
	var id string
	if err := c.host.Call("Host.Argument", "", &id); err != nil {
		return err
	}
	err := c.s.Redrive(c.ctx, id, c.name)
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

func (c child) work() error {
	for {
		if err := c.workOnce(); err != nil {
			fmt.Fprintln(os.Stderr, c.name, err)
			c.wait(20 * time.Millisecond)
		}
	}
}

// workOnce takes one message, if there is one, through its whole life.
func (c child) workOnce() error {
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
	r.Worker, r.Lease, r.MaxCrashes = c.name, childLease, 1000
	claim, err := c.s.Claim(c.ctx, r)
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
	got, err := c.s.Publish(c.ctx, publication)
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

func (c child) end(m Received, claim job.Claim, end error) error {
	v := outcome.Of(end)
	policy := outcome.Policy{MaxAttempts: 1000, Waits: []time.Duration{10 * time.Millisecond}}
	got, err := c.s.End(c.ctx, job.Ending{Claim: claim, Verdict: v, Action: policy.Decide(v, claim.Attempt, 0), ReceivesAtLimit: m.Receives%3 == 0})
	if err != nil {
		return err
	}
	c.at(pointEnded)
	if err := c.s.Dispatch(c.ctx, c, got.Outgoing); err != nil {
		return err
	}
	return c.settle(m, got.Settle)
}

func (c child) settle(m Received, s job.Settle) error {
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

// handle is the stage's work: an effect that cannot be undone, now and then a failure, and an output.
func (c child) handle(claim job.Claim) (job.Publication, error) {
	p := job.Publication{Claim: claim, Output: json.RawMessage(fmt.Sprintf(`{"of":%q}`, claim.Step))}
	effect, err := c.s.EffectBegin(c.ctx, claim, "pay")
	if err != nil {
		return p, err
	}
	if !effect.Done {
		var dice int
		if err := c.host.Call("Host.Pay", effect.ID, &dice); err != nil {
			return p, err
		}
		c.at(pointCalled)
		if err := c.s.EffectDone(c.ctx, claim, effect.ID, []byte("paid")); err != nil {
			return p, err
		}
		switch dice % 10 {
		case 0:
			return p, errBoom
		case 1:
			return p, outcome.Defer(5*time.Millisecond, "later")
		case 2:
			return p, outcome.ErrDraining
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
