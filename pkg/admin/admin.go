// Package admin is what an operator can see of a fleet and do to it: the state of every stage ([Admin]), and orders about
// dead letters, jobs, pauses and garbage ([Operator]), each of which leaves a line in the record's audit. Package job decides;
// this package adds what only the queues and the object store know. [Sweeper] keeps dead-letter queues to what waits for a
// person, CreateQueues makes the queues of a manifest where nothing else has. The API and the reconciler call it; it is safe
// for concurrent use.
package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// WorkerAge is how long after its last report a worker still counts.
const WorkerAge = time.Minute

// parallel bounds the calls that one overview has under way.
const parallel = 8

// Queues is what is used of the SQS client.
type Queues interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// Record is what is used of package job.
type Record interface {
	Workers(ctx context.Context, age time.Duration) ([]job.WorkerStatus, error)
	Pauses(ctx context.Context) ([]job.PauseEntry, error)
	Oldest(ctx context.Context) (map[string]time.Duration, error)
	Retrying(ctx context.Context) (map[string]int64, error)
	OldestDead(ctx context.Context) (map[string]time.Duration, error)
	OutboxLag(ctx context.Context) (time.Duration, error)
}

// Stage is the state of one stage at one moment. Counts are SQS's approximate ones.
type Stage struct {
	Name             string  `json:"name"`
	Queue            string  `json:"queue"`
	Visible          int64   `json:"visible"`
	InFlight         int64   `json:"in_flight"`
	Delayed          int64   `json:"delayed"`
	Retrying         int64   `json:"retrying"`            // of those in flight or delayed: steps that wait for the time of their next try
	DLQ              int64   `json:"dlq"`                 // messages in the dead-letter queue, whatever their state
	Uncounted        string  `json:"uncounted,omitempty"` // why a queue of it could not be counted; its counts then say nothing
	OldestAgeSeconds float64 `json:"oldest_age_seconds"`  // of the oldest step that could run and does not; 0 without any
	Paused           bool    `json:"paused"`
	Breaker          string  `json:"breaker"` // the worst of its workers: closed, half_open or open
	Workers          int     `json:"workers"`
	Busy             int     `json:"busy"`
	Slots            int     `json:"slots"`
	// Alarms are those that ring, by name, of the ones that queues and record tell of; see Watch.
	Alarms []string `json:"alarms"`
}

// Admin looks at the stages of one manifest in one environment.
type Admin struct {
	stages []stage.Stage
	env    string
	queues Queues
	record Record
	watch  watch
}

var _ job.Counter = (*Admin)(nil)

// New returns an Admin. It fails when the manifest does not validate, or no environment can have the name.
func New(pipeline stage.Pipeline, env string, queues Queues, record Record) (*Admin, error) {
	stages, err := pipeline.Ordered()
	if err := errors.Join(err, stage.CheckEnv(env)); err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	return &Admin{stages: stages, env: env, queues: queues, record: record,
		watch: watch{samples: map[string][]stage.Sample{}, firing: map[string][]string{}, counted: map[string]counted{}}}, nil
}

// Count returns a queue's three approximate counts.
func (a *Admin) Count(ctx context.Context, queue string) (visible, inFlight, delayed int64, err error) {
	return count(ctx, a.queues, queue)
}

func count(ctx context.Context, queues Queues, queue string) (visible, inFlight, delayed int64, err error) {
	url, err := queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("find queue %s: %w", queue, err)
	}
	names := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible, types.QueueAttributeNameApproximateNumberOfMessagesDelayed}
	out, err := queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl, AttributeNames: names})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("count queue %s: %w", queue, err)
	}
	var counts [3]int64
	for i, name := range names {
		if counts[i], err = strconv.ParseInt(out.Attributes[string(name)], 10, 64); err != nil {
			return 0, 0, 0, fmt.Errorf("count queue %s: read %s: %w", queue, name, err)
		}
	}
	return counts[0], counts[1], counts[2], nil
}

// Stages returns every stage in the order of the work. A queue that cannot be counted is told of its stage and hides no other.
func (a *Admin) Stages(ctx context.Context) ([]Stage, error) {
	list, _, err := a.look(ctx)
	for i := range list {
		list[i].Alarms = a.alarms(list[i].Name)
	}
	return list, err
}

func (a *Admin) look(ctx context.Context) ([]Stage, []job.WorkerStatus, error) {
	list := make([]Stage, len(a.stages))
	for i, s := range a.stages {
		list[i] = Stage{Name: s.Name, Queue: s.QueueName(a.env), Breaker: "closed"}
	}
	workers, err := a.fromRecord(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	var counts errgroup.Group
	counts.SetLimit(parallel)
	for i, s := range a.stages {
		counts.Go(func() error {
			a.count(ctx, s, &list[i])
			return nil
		})
	}
	_ = counts.Wait() // none fails
	return list, workers, ctx.Err()
}

// count adds what is in the queues of a stage.
func (a *Admin) count(ctx context.Context, s stage.Stage, to *Stage) {
	var err error
	to.Visible, to.InFlight, to.Delayed, err = a.Count(ctx, s.QueueName(a.env))
	visible, inFlight, delayed, dlq := a.Count(ctx, s.DLQName(a.env))
	to.DLQ = visible + inFlight + delayed
	if err := errors.Join(err, dlq); err != nil {
		to.Uncounted = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// fromRecord adds what workers and operators have said of the stages, and returns the workers.
func (a *Admin) fromRecord(ctx context.Context, list []Stage) ([]job.WorkerStatus, error) {
	workers, err := a.record.Workers(ctx, WorkerAge)
	if err != nil {
		return nil, fmt.Errorf("read the workers: %w", err)
	}
	pauses, err := a.record.Pauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pauses: %w", err)
	}
	oldest, err := a.record.Oldest(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the oldest work: %w", err)
	}
	retrying, err := a.record.Retrying(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what is tried again: %w", err)
	}
	for i := range list {
		s := &list[i]
		s.Retrying = retrying[s.Name]
		s.OldestAgeSeconds = oldest[s.Name].Seconds()
		for _, p := range pauses {
			s.Paused = s.Paused || p.Stage == s.Name || p.Stage == "all"
		}
		for _, w := range workers {
			s.add(w)
		}
	}
	return workers, nil
}

// severity orders the states of a breaker.
var severity = map[string]int{"closed": 0, "half_open": 1, "open": 2}

func (s *Stage) add(w job.WorkerStatus) {
	if w.Stage != s.Name {
		return
	}
	s.Workers++
	s.Busy += w.Busy
	s.Slots += w.Slots
	s.Paused = s.Paused || w.Paused
	if severity[w.Breaker] > severity[s.Breaker] {
		s.Breaker = w.Breaker
	}
}
