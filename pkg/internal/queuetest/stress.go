package queuetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// The stress: consumers that return messages, or die holding them, on a FIFO queue with many groups.
const (
	stressConsumers  = 8
	stressGroups     = 25
	stressPerGroup   = 20
	stressVisibility = 2 * time.Second
)

var stressBehaviours = []behaviour{
	{name: "consumers that return messages or die see order and exclusivity and lose nothing", takes: 30 * time.Second, run: func(e *env) {
		url := e.fifo("VisibilityTimeout", fmt.Sprint(int(stressVisibility.Seconds())))
		c := &checker{env: e, groups: map[string]*groupCheck{}, left: stressGroups * stressPerGroup}
		for i := range stressPerGroup {
			for g := range stressGroups {
				e.send(url, fmt.Sprint(i), group(fmt.Sprint("g", g)))
			}
		}
		var work sync.WaitGroup
		for n := range stressConsumers {
			work.Go(func() { c.consume(url, rand.New(rand.NewPCG(1, uint64(n)))) })
		}
		work.Wait()
		c.finish()
	}},
}

// checker knows, for each group, which message is next and who holds the group until when.
type checker struct {
	*env
	mu     sync.Mutex
	groups map[string]*groupCheck
	left   int
	deaths int
	nacks  int
}

type groupCheck struct {
	settled int       // how many of the group are done: the next body
	held    int       // messages that a consumer holds
	until   time.Time // when its hold ends by itself
}

func (c *checker) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left == 0 || c.Failed()
}

func (c *checker) consume(url *string, random *rand.Rand) {
	for !c.done() {
		out, err := c.tryReceive(url, most(1+random.Int32N(10)), wait(1))
		if err != nil {
			c.Error(err)
			return
		}
		held := c.arrived(out.Messages)
		for _, name := range held.order {
			c.work(url, name, held.messages[name], random)
		}
	}
}

// hold is what one receive brought, by group.
type hold struct {
	order    []string
	messages map[string][]types.Message
}

// arrived checks order and exclusivity of what a receive brought.
func (c *checker) arrived(messages []types.Message) hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	h := hold{messages: map[string][]types.Message{}}
	for _, m := range messages {
		name := m.Attributes["MessageGroupId"]
		g := c.groups[name]
		if g == nil {
			g = &groupCheck{}
			c.groups[name] = g
		}
		if len(h.messages[name]) == 0 {
			h.order = append(h.order, name)
			if g.held > 0 && now.Add(c.margin()).Before(g.until) {
				c.Errorf("group %s was given to two consumers", name)
			}
			g.held, g.until = 0, now.Add(stressVisibility)
		}
		if want := fmt.Sprint(g.settled + g.held); *m.Body != want {
			c.Errorf("group %s: message %s came when %s was next", name, *m.Body, want)
		}
		g.held++
		h.messages[name] = append(h.messages[name], m)
	}
	return h
}

// work settles a group's messages one after the other, or returns the rest, or dies with them.
func (c *checker) work(url *string, name string, messages []types.Message, random *rand.Rand) {
	for i, m := range messages {
		<-time.After(time.Duration(random.IntN(20)) * time.Millisecond)
		switch random.IntN(20) {
		case 0:
			c.note(func() { c.deaths++ })
			return
		case 1, 2:
			c.note(func() { c.nacks++ })
			c.giveBack(url, name, messages[i:])
			return
		}
		if !c.settled(name) {
			return
		}
		if err := c.tryDelete(url, m); err != nil {
			c.Errorf("delete of %s in %s: %v", *m.Body, name, err)
			return
		}
	}
}

func (c *checker) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// settled books one message as done, before the queue is told: the next consumer may be faster than the answer. A hold
// that is about to end is left to end.
func (c *checker) settled(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[name]
	if time.Until(g.until) < stressVisibility/4 {
		return false
	}
	g.settled++
	g.held--
	c.left--
	return true
}

// giveBack returns messages; the group is free once the last of them is.
func (c *checker) giveBack(url *string, name string, messages []types.Message) {
	late := false
	c.note(func() {
		g := c.groups[name]
		if late = time.Until(g.until) < stressVisibility/4; !late {
			g.held = 0
		}
	})
	if late {
		return
	}
	in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url}
	for i, m := range messages {
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
	}
	out, err := c.ChangeMessageVisibilityBatch(c.ctx(), in)
	if err != nil || len(out.Failed) > 0 {
		c.Errorf("return of %s: %v", name, err)
	}
}

func (c *checker) finish() {
	for name, g := range c.groups {
		if g.settled != stressPerGroup {
			c.Errorf("group %s: %d of %d messages arrived", name, g.settled, stressPerGroup)
		}
	}
	if len(c.groups) != stressGroups || c.deaths == 0 || c.nacks == 0 {
		c.Errorf("%d groups, %d deaths, %d returns: the stress shows nothing", len(c.groups), c.deaths, c.nacks)
	}
}
