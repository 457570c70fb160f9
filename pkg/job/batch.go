package job

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// How many requests share one transaction at most. On Postgres commits and round trips are what rows share, so that two hundred
// cost a third less each than fifty; on SQLite everybody else waits meanwhile.
const (
	maxBatch     = 200
	maxBatchLite = 50
)

// maxBatchTime bounds a shared transaction with its retries.
const maxBatchTime = 30 * time.Second

// batcher lets requests that are due together share a transaction. A request that is alone runs at once; those that come
// while all leaders are busy wait for the next transaction, never for a timer. The callers themselves lead, each for
// one batch, so there is no goroutine to own.
type batcher[Req, Res any] struct {
	run     func(context.Context, []Req) ([]Res, error)
	most    int                // requests in a transaction
	leaders int                // transactions at a time; at least 1
	orphans func([]Req, []Res) // undoes what was done for callers that have gone meanwhile; nil: nothing need be

	mu      sync.Mutex
	waiting []*call[Req, Res]
	leading int
}

type call[Req, Res any] struct {
	req  Req
	done chan answer[Res] // of size 1
	lead chan struct{}    // of size 1: it is this caller's turn to lead
	gone bool             // nobody waits for the answer any more; guarded by batcher.mu
}

type answer[Res any] struct {
	res Res
	err error
}

// do runs the request, perhaps together with others. When ctx ends first its outcome is unknown, as with any commit.
func (b *batcher[Req, Res]) do(ctx context.Context, req Req) (Res, error) {
	c := &call[Req, Res]{req: req, done: make(chan answer[Res], 1), lead: make(chan struct{}, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if b.leading < b.leaders {
		b.leading++
		c.lead <- struct{}{}
	}
	b.mu.Unlock()
	select {
	case <-c.lead:
		b.serve(ctx, c, b.take())
		b.passOn()
		a := <-c.done // ours was in this batch, or another leader has it and bounds it
		return a.res, a.err
	case a := <-c.done:
		b.abandon(c) // another leader has run it: the turn to lead goes on to the next
		return a.res, a.err
	case <-ctx.Done():
		b.abandon(c)
		select {
		case a := <-c.done: // it came at the same moment
			return a.res, a.err
		default:
		}
		var none Res
		return none, context.Cause(ctx)
	}
}

// take removes the next batch. The leader's own call is among it: it is the first that waits.
func (b *batcher[Req, Res]) take() []*call[Req, Res] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), b.most)
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	return batch
}

// passOn ends a turn of leading: the first that waits leads next.
func (b *batcher[Req, Res]) passOn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passOnLocked()
}

func (b *batcher[Req, Res]) passOnLocked() {
	for _, c := range b.waiting {
		if len(c.lead) == 0 {
			c.lead <- struct{}{}
			return
		}
	}
	b.leading--
}

// abandon takes a call back if no batch has taken it yet, with its turn to lead if it has one.
func (b *batcher[Req, Res]) abandon(c *call[Req, Res]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.gone = true
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	if len(c.lead) > 0 {
		<-c.lead
		b.passOnLocked()
	}
}

// answer gives a caller its result, and reports whether it is still there.
func (b *batcher[Req, Res]) answer(c *call[Req, Res], a answer[Res]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.gone {
		c.done <- a
	}
	return !c.gone
}

// answerAll gives the callers their results, and then undoes those of the ones that have gone: that takes a while, and nobody who is
// still there waits for it.
func (b *batcher[Req, Res]) answerAll(batch []*call[Req, Res], res []Res) {
	var reqs []Req
	var lost []Res
	for i, c := range batch {
		if !b.answer(c, answer[Res]{res: res[i]}) {
			reqs, lost = append(reqs, c.req), append(lost, res[i])
		}
	}
	if len(reqs) > 0 && b.orphans != nil {
		b.orphans(reqs, lost)
	}
}

// serve runs a batch. Only a call of the leader's own, alone, is bound by the leader's ctx.
func (b *batcher[Req, Res]) serve(ctx context.Context, own *call[Req, Res], batch []*call[Req, Res]) {
	if len(batch) == 0 {
		return
	}
	reqs := make([]Req, len(batch))
	for i, c := range batch {
		reqs[i] = c.req
	}
	// A transaction of several callers, or of another one, must not be undone by the end of the leader.
	if len(batch) > 1 || batch[0] != own {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), maxBatchTime)
		defer cancel()
	}
	res, err := b.run(ctx, reqs)
	switch {
	case err == nil:
		b.answerAll(batch, res)
	case len(batch) == 1 || errors.Is(err, sqldb.ErrUnknown): // what may have happened must not happen twice
		for _, c := range batch {
			b.answer(c, answer[Res]{err: err})
		}
	default: // one of them may be at fault: each alone
		for i := range batch {
			b.serve(ctx, own, batch[i:i+1])
		}
	}
}
