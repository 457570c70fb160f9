package pool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

const (
	// gatherSettle is how long a settlement waits for others to share its call.
	gatherSettle = 5 * time.Millisecond

	// maxSettleCalls is how many calls of one kind are under way at once.
	maxSettleCalls = 8

	// slowestCall bounds one of them.
	slowestCall = 10 * time.Second
)

// batcher gathers messages for calls of ten.
type batcher struct {
	in   chan *held
	call func([]*held)
}

// run hands on batches until its context ends, whole ones at once and others after a few milliseconds. What it has then is still
// handed on, for call to give up. The callers stay for the next batch: a call needs a deep stack, which is costly to grow each time.
func (b *batcher) run(ctx context.Context) {
	full := make(chan []*held)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer close(full)
	for started := 0; ; {
		var first *held
		select {
		case first = <-b.in:
		case <-ctx.Done():
			return
		}
		gathered := b.gather(ctx, first)
		select {
		case full <- gathered:
			continue
		default:
		}
		if started < maxSettleCalls {
			started++
			callers.Go(func() {
				for hs := range full {
					b.call(hs)
				}
			})
		}
		full <- gathered
	}
}

func (b *batcher) gather(ctx context.Context, first *held) []*held {
	full := append(make([]*held, 0, batch), first)
	timer := time.NewTimer(gatherSettle)
	defer timer.Stop()
	for len(full) < batch {
		select {
		case h := <-b.in:
			full = append(full, h)
		case <-timer.C:
			return full
		case <-ctx.Done():
			return full
		}
	}
	return full
}

// settle hands a message on to be settled as s says. It is kept hidden until that is confirmed.
func (p *Pool) settle(h *held, s Settlement) {
	h.settlement = s
	var to *batcher
	switch s.Action {
	case Delete:
		to = &p.deletes
	case Hide:
		to = &p.hides
		if s.After == 0 {
			p.awaitPolls() // one of them would take it again
		}
	default:
		p.forget(h, true)
		return
	}
	select {
	case to.in <- h:
	case <-p.settling.Done():
		p.forget(h, false)
	}
}

// awaitPolls waits, if the pool is stopping, until no receive is under way.
func (p *Pool) awaitPolls() {
	if p.intake.Err() == nil {
		return
	}
	select {
	case <-p.pollsDone:
	case <-p.settling.Done():
	}
}

// deleteBatch deletes by the newest receipts.
func (p *Pool) deleteBatch(hs []*held) {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &p.cfg.QueueURL, Entries: make([]types.DeleteMessageBatchRequestEntry, len(hs))}
	p.mu.Lock()
	for i, h := range hs {
		in.Entries[i] = types.DeleteMessageBatchRequestEntry{Id: positions[i], ReceiptHandle: h.handle}
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.settling, slowestCall)
	defer cancel()
	out, err := p.sqs.DeleteMessageBatch(ctx, in, p.settleOpts...)
	var failed failures
	if err == nil {
		failed = byPosition(out.Failed)
	}
	p.metrics.deletes.Inc()
	for i, h := range hs {
		p.confirm(h, in.Entries[i].ReceiptHandle, failed[i], err)
	}
}

// hideBatch hides by the newest receipts. Neither a renewal under way nor a later one may undo it.
func (p *Pool) hideBatch(hs []*held) {
	in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &p.cfg.QueueURL}
	now := time.Now()
	p.mu.Lock()
	hs = slices.DeleteFunc(hs, func(h *held) bool {
		h.parked = h.beating
		return h.parked
	})
	for i, h := range hs {
		h.hiding = true
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id: positions[i], ReceiptHandle: h.handle,
			VisibilityTimeout: seconds(max(0, min(h.settlement.After, h.hideable(now)))),
		})
	}
	p.mu.Unlock()
	if len(hs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.settling, slowestCall)
	defer cancel()
	out, err := p.sqs.ChangeMessageVisibilityBatch(ctx, in, p.settleOpts...)
	var failed failures
	if err == nil {
		failed = byPosition(out.Failed)
	}
	p.metrics.hides.Inc()
	for i, h := range hs {
		p.confirm(h, in.Entries[i].ReceiptHandle, failed[i], err)
	}
}

// confirm takes in one answer: done, to be tried again, or past hope.
func (p *Pool) confirm(h *held, used *string, failed *types.BatchResultErrorEntry, err error) {
	if err == nil && failed == nil {
		p.forget(h, true)
		return
	}
	p.mu.Lock()
	h.hiding = false
	newer := h.handle != used
	gone := !newer && failed != nil && failed.SenderFault
	again := newer || (!gone && time.Now().Before(h.hiddenUntil))
	h.tries++
	wait := min(firstRetry<<min(h.tries-1, 10), slowestRetry)
	p.mu.Unlock()
	p.metrics.settleFailed(h.settlement.Action, gone, err)
	if !again {
		p.cfg.Log.Warn("message not settled, it will come again", append(p.fields(h), zap.String("action", string(h.settlement.Action)))...)
		p.forget(h, false)
		return
	}
	p.tasks.Go(func() {
		if sleep(p.settling, wait) {
			p.settle(h, h.settlement)
			return
		}
		p.forget(h, false)
	})
}

// forget is the end of every message: nothing renews it any more, and what is owed for it is paid.
func (p *Pool) forget(h *held, settled bool) {
	p.mu.Lock()
	if done := h.settlement.Action == Delete && p.cfg.Ledger == nil; done && (!settled || !time.Now().Before(h.hiddenUntil)) {
		p.undeleted.add(h.msg.ID)
	}
	p.drop(h)
	p.tally(h, settled)
	owed := h.pass
	if owed != nil {
		owed.left--
		if owed.left > 0 {
			owed = nil
		}
	}
	p.mu.Unlock()
	p.leave(h)
	owed.pay()
	p.settled.Fire()
}

// drop takes h off the list. It runs under mu.
func (p *Pool) drop(h *held) {
	if p.byID[h.msg.ID] != h {
		return
	}
	if p.held.len >= p.mostHeld() {
		p.wakeIntake()
	}
	delete(p.byID, h.msg.ID)
	p.held.remove(h)
}
