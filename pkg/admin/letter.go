package admin

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// WhyUnreadable says of a letter that its body is none of ours.
const WhyUnreadable = "unreadable"

// whyDead is why the copy of a dead step stays: the record lists the step itself.
const whyDead = "dead"

// letterWait is how long a person's look waits for messages that a queue says it has.
const letterWait = time.Second

// reasonAttribute is where dead-letter copies say why they were made.
const reasonAttribute = "dead-reason"

// Letter is a message of a dead-letter queue. Its body is nobody's to see: it may be anything.
type Letter struct {
	ID     string    `json:"id"` // that SQS gave it
	Stage  string    `json:"stage"`
	Queue  string    `json:"queue"`
	Why    string    `json:"why"`              // unreadable, unknown_step, wrong_tenant or future_emission
	Reason string    `json:"reason,omitempty"` // that the message gives itself
	Step   string    `json:"step,omitempty"`   // that it says it is for
	Bytes  int       `json:"bytes"`            // of the body
	SentAt time.Time `json:"sent_at"`
}

func letterOf(st stage.Stage, env string, m types.Message) Letter {
	l := Letter{ID: aws.ToString(m.MessageId), Stage: st.Name, Queue: st.DLQName(env), Bytes: len(aws.ToString(m.Body))}
	if sent, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		l.SentAt = time.UnixMilli(sent).UTC()
	}
	// Anybody may have written the attribute: what is not a word of ours is not repeated.
	if reason := aws.ToString(m.MessageAttributes[reasonAttribute].StringValue); envelope.ValidID(reason) {
		l.Reason = reason
	}
	return l
}

// Unknown looks into the dead-letter queues of a stage, or of all when it is empty, and returns the messages that the record
// does not know, oldest first, of as many messages as one look reaches in 40 seconds. A look sweeps too.
func (s *Sweeper) Unknown(ctx context.Context, name string) ([]Letter, error) {
	unknown := []Letter{}
	err := s.each(ctx, name, s.judge, func(found []Letter) {
		for _, l := range found {
			if l.Why != whyDead {
				unknown = append(unknown, l)
			}
		}
	})
	slices.SortFunc(unknown, func(a, b Letter) int { return a.SentAt.Compare(b.SentAt) })
	return unknown, err
}

// each looks into the queue of one stage, or of all, that has messages, at several at once.
func (s *Sweeper) each(ctx context.Context, name string, judge verdict, take func([]Letter)) error {
	var mu sync.Mutex
	looks, ctx := errgroup.WithContext(ctx)
	looks.SetLimit(parallel)
	for _, st := range s.Stages {
		if name != "" && st.Name != name {
			continue
		}
		looks.Go(func() error {
			visible, inFlight, delayed, err := count(ctx, s.Queues, st.DLQName(s.Env))
			if err != nil || visible+inFlight+delayed == 0 {
				return err
			}
			found, err := s.look(ctx, st.WithDefaults(), letterWait, judge)
			mu.Lock()
			defer mu.Unlock()
			take(found)
			return err
		})
	}
	return looks.Wait()
}

// Remove deletes the message of that ID if the record does not know it, and returns it. job.ErrNotFound when no dead-letter
// queue shows it.
func (s *Sweeper) Remove(ctx context.Context, id string, before func(Letter) error) (Letter, error) {
	var removed *Letter
	var mu sync.Mutex
	err := s.each(ctx, "", func(ctx context.Context, st stage.Stage, m types.Message) (Letter, bool, error) {
		l, gone, err := s.judge(ctx, st, m)
		if gone || err != nil || l.ID != id || l.Why == whyDead {
			return l, gone, err
		}
		if err := before(l); err != nil {
			return l, false, err
		}
		mu.Lock()
		defer mu.Unlock()
		removed = &l
		return l, true, nil
	}, func([]Letter) {})
	switch {
	case err != nil:
		return Letter{}, err
	case removed == nil:
		return Letter{}, job.ErrNotFound
	}
	return *removed, nil
}
