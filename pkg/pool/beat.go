package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// renew makes one beat for the messages that are due: their records first, in one ordered call, then their visibility, in batches of
// ten. What fails is due again within seconds.
func (p *Pool) renew(due []*held) {
	start := time.Now()
	p.beatLateness(due, start)
	retry := p.renewRecords(due, start)
	for h := range p.extend(due) {
		retry[h] = true
	}
	now := time.Now()
	var parked []*held
	p.mu.Lock()
	for _, h := range due {
		h.beating = false
		h.beatDue = start.Add(p.cfg.Beat)
		if retry[h] {
			h.beatDue = now.Add(min(beatRetry, p.cfg.Beat/4))
		}
		if h.parked {
			h.parked = false
			parked = append(parked, h)
		}
	}
	p.mu.Unlock()
	for _, h := range parked { // apart, because that may have to wait, and the next beat must not
		p.tasks.Go(func() { p.settle(h, h.settlement) })
	}
}

func (p *Pool) beatLateness(due []*held, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range due {
		p.metrics.beatLate.Observe(max(0, now.Sub(h.beatDue).Seconds()))
	}
}

// renewRecords renews the leases and tells handlers whose work was taken away. It returns those to be tried again.
func (p *Pool) renewRecords(due []*held, start time.Time) map[*held]bool {
	retry := map[*held]bool{}
	leased, grants := p.leased(due)
	if len(leased) == 0 {
		return retry
	}
	ctx, cancel := context.WithTimeout(p.settling, min(slowestBeat, p.cfg.Beat/2))
	defer cancel()
	answers, err := p.ledger.Renew(ctx, grants)
	p.metrics.beat("record", err)
	if err != nil {
		p.cfg.Log.Warn("leases not renewed", errorType(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range leased {
		if err != nil || i >= len(answers) {
			retry[h] = true
			continue
		}
		retry[h] = p.renewedRecord(h, answers[i], start)
	}
	return retry
}

// leased picks the messages that have a lease which is still ours to renew.
func (p *Pool) leased(due []*held) (leased []*held, grants []Grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range due {
		if h.grant.Lease > 0 && h.taken == nil {
			leased = append(leased, h)
			grants = append(grants, h.grant)
		}
	}
	return leased, grants
}

// renewedRecord takes in one answer, and tells whether to ask again soon. It runs under mu.
func (p *Pool) renewedRecord(h *held, answer error, start time.Time) (again bool) {
	if answer == nil {
		h.leaseUntil = start.Add(h.grant.Lease)
		return false
	}
	for _, cause := range []error{outcome.ErrLeaseLost, outcome.ErrSuperseded, outcome.ErrCancelled} {
		if errors.Is(answer, cause) {
			h.taken = cause
			p.endHandler(h, cause, time.Now())
			return false
		}
	}
	return true
}

// extend hides the messages for another while. It returns those to be tried again. All its calls together have the time of one: what a
// queue that hangs keeps waiting here are the leases that come next.
func (p *Pool) extend(due []*held) map[*held]bool {
	ctx, cancel := context.WithTimeout(p.settling, min(slowestBeat, p.cfg.Beat/2))
	defer cancel()
	var mu sync.Mutex
	retry := map[*held]bool{}
	var calls sync.WaitGroup
	limit := make(chan struct{}, maxPollers)
	for len(due) > 0 && ctx.Err() == nil {
		n := min(len(due), batch)
		part := due[:n]
		due = due[n:]
		limit <- struct{}{}
		calls.Go(func() {
			failed := p.extendBatch(ctx, part)
			mu.Lock()
			for _, h := range failed {
				retry[h] = true
			}
			mu.Unlock()
			<-limit
		})
	}
	calls.Wait()
	for _, h := range due {
		retry[h] = true
	}
	return retry
}

// extendBatch makes one call for at most ten messages, by their newest receipts.
func (p *Pool) extendBatch(ctx context.Context, due []*held) (retry []*held) {
	start := time.Now()
	asked, in := p.extension(due, start)
	if len(asked) == 0 {
		return nil
	}
	out, err := p.sqs.ChangeMessageVisibilityBatch(ctx, in, p.settleOpts...)
	p.metrics.beat("visibility", err)
	if err != nil {
		p.cfg.Log.Warn("messages not kept hidden", errorType(err))
		return asked
	}
	failed := byPosition(out.Failed)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range asked {
		switch entry := failed[i]; {
		case h.handle != in.Entries[i].ReceiptHandle: // received again meanwhile: the answer is about a receipt of the past
			retry = append(retry, h)
		case entry == nil:
			h.hiddenUntil = start.Add(time.Duration(in.Entries[i].VisibilityTimeout) * time.Second)
		case disowned(entry):
			p.receiptGone(h)
		default:
			retry = append(retry, h)
		}
	}
	return retry
}

func (p *Pool) extension(due []*held, now time.Time) (asked []*held, in *sqs.ChangeMessageVisibilityBatchInput) {
	in = &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &p.cfg.QueueURL}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range due {
		left := h.hideable(now)
		if h.handleGone || h.lost || left <= 0 {
			continue
		}
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id:                positions[len(asked)],
			ReceiptHandle:     h.handle,
			VisibilityTimeout: seconds(min(p.cfg.Visibility, left)),
		})
		asked = append(asked, h)
	}
	return asked, in
}

// hideable is how much longer SQS lets the message be hidden, in whole seconds and a second short of the limit.
func (h *held) hideable(now time.Time) time.Duration {
	return (maxHidden - now.Sub(h.receivedAt) - time.Second).Truncate(time.Second)
}

// receiptGone notes that the queue has taken the message back. Where visibility is the lease, that is the end of it; where a record
// is, the work goes on: another delivery will be refused by it. It runs under mu.
func (p *Pool) receiptGone(h *held) {
	h.handleGone = true
	if h.grant.Lease == 0 {
		p.endHandler(h, outcome.ErrLeaseLost, time.Now())
	}
}
