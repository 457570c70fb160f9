package pool

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

// slowestCall bounds one call that settles messages.
const slowestCall = 10 * time.Second

// settle hands a message on to be settled as s says. It is kept hidden until that is confirmed.
func (p *Pool) settle(h *held, s Settlement) {
	h.settlement = s
	var to *batcher
	switch s.Action {
	case Delete:
		to = p.deletes
	case Hide:
		to = p.hides
		if s.After == 0 {
			p.awaitPolls() // one of them would take it again
		}
	default:
		p.forget(h, true)
		return
	}
	if !to.add(h) {
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
	var used handles
	p.mu.Lock()
	for i, h := range hs {
		used[i] = h.handle
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
	p.metrics.deleted.Add(p.answered(hs, used, failed, err))
}

// hideBatch hides by the newest receipts. Neither a renewal under way nor a later one may undo it.
func (p *Pool) hideBatch(hs []*held) {
	in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &p.cfg.QueueURL}
	now := time.Now()
	var used handles
	p.mu.Lock()
	hs = slices.DeleteFunc(hs, func(h *held) bool {
		h.parked = h.beating
		return h.parked
	})
	for i, h := range hs {
		after := seconds(max(0, min(h.settlement.After, h.hideable(now))))
		h.hiding, h.backAt, used[i] = true, now.Add(time.Duration(after)*time.Second), h.handle
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id: positions[i], ReceiptHandle: h.handle, VisibilityTimeout: after,
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
	p.metrics.hidden.Add(p.answered(hs, used, failed, err))
}

// answered lets go of the messages that a call settled, and of no other: an answer about a receipt of the past says nothing. It returns
// how many those are.
func (p *Pool) answered(hs []*held, used handles, failed failures, err error) (settled float64) {
	var done [batch]bool
	p.mu.Lock()
	for i, h := range hs {
		if done[i] = err == nil && failed[i] == nil && h.handle == used[i]; done[i] {
			p.letGo(h, true)
		}
	}
	p.mu.Unlock()
	for i, h := range hs {
		if done[i] {
			settled++
			p.pay(h)
		} else {
			p.failed(h, used[i], failed[i], err)
		}
	}
	p.settled.Fire()
	return settled
}

// failed takes in the answer about a message that a call did not settle: it is tried again, or past hope.
func (p *Pool) failed(h *held, used *string, entry *types.BatchResultErrorEntry, err error) {
	p.mu.Lock()
	h.hiding = false
	back := p.byID[h.msg.ID] != h // it was received again when its wait was over, and is another's
	newer := h.handle != used
	gone := !newer && disowned(entry)
	again := newer || (!gone && time.Now().Before(h.hiddenUntil))
	h.tries++
	wait := min(firstRetry<<min(h.tries-1, 10), slowestRetry)
	p.pokeKeeper(h.beatDue) // which has left it alone meanwhile
	p.mu.Unlock()
	if entry != nil || err != nil {
		p.metrics.settleFailed(h.settlement.Action, gone, err)
	}
	switch {
	case back:
		p.forget(h, true)
		return
	case !again:
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
	p.letGo(h, settled)
	p.mu.Unlock()
	p.pay(h)
	p.settled.Fire()
}

// letGo is the part of forget that runs under mu.
func (p *Pool) letGo(h *held, settled bool) {
	if done := h.settlement.Action == Delete && p.cfg.Ledger == nil; done && (!settled || !time.Now().Before(h.hiddenUntil)) {
		p.undeleted.add(h.msg.ID)
	}
	p.drop(h)
	p.tally(h, settled)
	h.passOn()
}

// passOn leaves what the gates are owed to the other messages of the receive, unless h is the last. It runs under mu.
func (h *held) passOn() {
	if h.pass == nil {
		return
	}
	if h.pass.left--; h.pass.left > 0 {
		h.pass = nil
	}
}

// pay gives the gates and the protector what they are owed once a message, or the last one of a receive, is gone. It does so once.
func (p *Pool) pay(h *held) {
	p.mu.Lock()
	owed, entered := h.pass, h.entered
	h.pass, h.entered = nil, false
	p.mu.Unlock()
	if entered {
		p.cfg.Protector.Leave()
	}
	owed.pay()
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
