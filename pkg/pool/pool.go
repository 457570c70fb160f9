// Package pool keeps SQS messages safe while handlers work on them.
//
// It receives only what it can start, hides each message until its handler has returned and its end is settled, and gives back what
// it cannot finish when told to stop. With a Ledger an execution needs the record's permission; without one the queue is all there
// is, and a handler may run more than once for a message. It does not order standard queues and never calls anything exactly-once.
package pool

import (
	"context"
	"errors"
	"fmt"
)

// Pool consumes one queue. Make it with New.
type Pool struct {
	sqs SQS
	cfg Config
}

// New makes a pool; it calls nothing yet.
func New(sqs SQS, cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure pool: %w", err)
	}
	return &Pool{sqs: sqs, cfg: cfg.withDefaults()}, nil
}

// Run consumes until ctx ends, then drains: see Config.Drain, Grace and Settle, whose sum bounds the stop. It may be called once.
func (p *Pool) Run(ctx context.Context) (Report, error) {
	return Report{}, errors.New("not ready")
}
