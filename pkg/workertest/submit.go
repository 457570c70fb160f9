package workertest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/internal/outbound"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// pollPeriod is how often Wait looks.
const pollPeriod = 100 * time.Millisecond

// What a Fleet's tenant has at the start, and what a job costs.
const (
	Funds = 1000
	Price = 1
)

// Submit asks for a job on a version of a target; version 0 is the next one. The
// input is what the first stage gets.
func (f *Fleet) Submit(target string, version int64, input any) job.Job {
	f.t.Helper()
	first, err := f.o.Stages.First(Environment)
	check(f.t, "find the first stage", err)
	raw := encoded(f.t, input)
	sum := sha256.Sum256(raw)
	j, err := f.Record.Submit(f.t.Context(), job.Submission{
		Tenant: Tenant, Target: target, Version: version, Digest: hex.EncodeToString(sum[:]), Input: raw, First: job.Route(first), Price: Price,
	})
	check(f.t, "submit", err)
	return j
}

// Job returns what the record says of a job.
func (f *Fleet) Job(id string) job.Job {
	f.t.Helper()
	j, err := f.Record.Job(f.t.Context(), Tenant, id)
	check(f.t, "read the job", err)
	return j
}

// Wait waits until the job has ended and returns it.
func (f *Fleet) Wait(id string) job.Job {
	f.t.Helper()
	return f.WaitFor(id, func(j job.Job) bool { return j.State.Ended() })
}

// WaitFor waits until the condition holds for the job and returns it.
func (f *Fleet) WaitFor(id string, condition func(job.Job) bool) job.Job {
	f.t.Helper()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	j := f.Job(id)
	for end := time.Now().Add(f.o.Patience); !condition(j); <-tick.C {
		if time.Now().After(end) {
			f.t.Fatalf("job %s is %s after %v: %+v", id, j.State, f.o.Patience, j.Steps)
		}
		seq, err := f.Record.Seq(f.t.Context(), Tenant, id)
		check(f.t, "look at the job", err)
		if seq != j.Seq {
			j = f.Job(id)
		}
	}
	return j
}

// Balance returns what the tenant has left: Funds without what unrefunded jobs cost.
func (f *Fleet) Balance() int64 {
	f.t.Helper()
	a, err := f.Record.Account(f.t.Context(), Tenant)
	check(f.t, "read the account", err)
	return a.Balance
}

// Stages returns what an operator sees.
func (f *Fleet) Stages() []admin.Stage {
	f.t.Helper()
	list, err := f.admin.Stages(f.t.Context())
	check(f.t, "look at the stages", err)
	return list
}

// Send puts a message that no job knows into a stage's queue.
func (f *Fleet) Send(name, body string) {
	f.t.Helper()
	route, err := f.o.Stages.Route(Environment, name)
	check(f.t, "find the queue", err)
	row := job.Outgoing{Queue: route.Queue, FIFO: route.FIFO, Group: "stranger", Dedup: body, Body: body}
	check(f.t, "send", errors.Join(outbound.New(f.client).Send(f.t.Context(), []job.Outgoing{row})...))
}

// DeadLetters returns up to ten messages of a stage's dead-letter queue, which it hides for a second.
func (f *Fleet) DeadLetters(name string) []types.Message {
	f.t.Helper()
	s, _ := f.o.Stages.Stage(name)
	url, err := f.client.GetQueueUrl(f.t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(s.DLQName(Environment))})
	check(f.t, "find the dead-letter queue", err)
	out, err := f.client.ReceiveMessage(f.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 1, MessageAttributeNames: []string{"All"},
	})
	check(f.t, "read the dead-letter queue", err)
	return out.Messages
}
