package fleet

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// Relay and reconciler wait out what goes wrong. The types here tell the log of it, so that a queue that nobody can reach
// does not go unnoticed. What a stop cuts short is no fault.

// loggedSender logs one line for each call of which something could not be sent; the rows stay in the outbox.
type loggedSender struct {
	job.Sender
	log *zap.Logger
}

func (s loggedSender) Send(ctx context.Context, rows []job.Outgoing) []error {
	errs := s.Sender.Send(ctx, rows)
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed > 0 && ctx.Err() == nil {
		s.log.Warn("messages not sent, will be tried again", zap.Int("messages", failed), zap.Error(errors.Join(errs...)))
	}
	return errs
}

// loggedCounter logs that a queue could not be looked at; its steps are not repaired meanwhile.
type loggedCounter struct {
	job.Counter
	log *zap.Logger
}

func (c loggedCounter) Count(ctx context.Context, queue string) (visible, inFlight, delayed int64, err error) {
	visible, inFlight, delayed, err = c.Counter.Count(ctx, queue)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("queue not counted, its work is not repaired meanwhile", zap.String("queue", queue), zap.Error(err))
	}
	return visible, inFlight, delayed, err
}

// loggedFaults logs what relay and reconciler wait out.
func loggedFaults(log *zap.Logger) func(error) {
	return func(err error) {
		log.Warn("the record has a fault, relay and reconciler will try again", zap.Error(err))
	}
}
