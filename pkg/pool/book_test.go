package pool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// book is a Ledger in memory, as strict as a record: one owner per message id, a token per claim, leases by the clock, attempts that
// count only what started and ended.
type book struct {
	lease  time.Duration
	policy outcome.Policy

	mu       sync.Mutex
	pages    map[string]*page
	ill      error // of every call
	renewErr error // of Renew alone
	renewals []time.Duration
	sizes    []int
	start    time.Time
	closeErr func(n int) error // of the nth Close, from 1
	closes   int
	pings    int
}

type page struct {
	token    int
	until    time.Time
	attempts int
	crashes  int
	runs     int
	done     bool
	dead     bool
	notYet   time.Time
	ends     []outcome.Kind
	told     error // what the next renewal answers
}

type ticket struct {
	id    string
	token int
}

func newBook(lease time.Duration) *book {
	return &book{lease: lease, pages: map[string]*page{}, start: time.Now()}
}

var errIll = errors.New("record is ill")

func (b *book) page(id string) *page {
	p := b.pages[id]
	if p == nil {
		p = &page{}
		b.pages[id] = p
	}
	return p
}

func (b *book) Claim(_ context.Context, m pool.Message) (pool.Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ill != nil {
		return pool.Grant{}, b.ill
	}
	p, now := b.page(m.ID), time.Now()
	switch {
	case p.done || p.dead:
		return pool.Grant{}, &pool.Refusal{Settlement: pool.Settlement{Action: pool.Delete, Reason: "ended"}}
	case now.Before(p.until):
		return pool.Grant{}, &pool.Refusal{Settlement: pool.Settlement{Action: pool.Hide, After: p.until.Sub(now), Reason: "held"}}
	case now.Before(p.notYet):
		return pool.Grant{}, &pool.Refusal{Settlement: pool.Settlement{Action: pool.Hide, After: p.notYet.Sub(now), Reason: "not_due"}}
	}
	if !p.until.IsZero() {
		p.crashes++
	}
	p.token++
	p.runs++
	p.until = now.Add(b.lease)
	return pool.Grant{Attempt: p.attempts + 1, Lease: b.lease, Value: ticket{m.ID, p.token}, IDs: map[string]string{"job": "job-of-" + m.ID[:4]}}, nil
}

func (b *book) Renew(_ context.Context, grants []pool.Grant) ([]error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewals = append(b.renewals, time.Since(b.start))
	b.sizes = append(b.sizes, len(grants))
	if err := errors.Join(b.ill, b.renewErr); err != nil {
		return nil, err
	}
	answers := make([]error, len(grants))
	for i, g := range grants {
		t := g.Value.(ticket)
		p := b.page(t.id)
		switch {
		case p.told != nil:
			answers[i] = p.told
		case p.token != t.token || !time.Now().Before(p.until):
			answers[i] = outcome.ErrLeaseLost
		default:
			p.until = time.Now().Add(b.lease)
		}
	}
	return answers, nil
}

func (b *book) Close(_ context.Context, g pool.Grant, end error) (pool.Settlement, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closes++
	if b.closeErr != nil {
		if err := b.closeErr(b.closes); err != nil {
			return pool.Settlement{}, err
		}
	}
	if b.ill != nil {
		return pool.Settlement{}, b.ill
	}
	t := g.Value.(ticket)
	p := b.page(t.id)
	if p.token != t.token || !time.Now().Before(p.until) {
		return pool.Settlement{Action: pool.Leave, Reason: "stale_owner"}, nil
	}
	v := outcome.Of(end)
	a := b.policy.Decide(v, p.attempts+1, rand.Float64())
	p.ends = append(p.ends, v.Kind)
	p.attempts, p.until = a.Attempt, time.Time{}
	switch a.Do {
	case outcome.Finish:
		p.done = true
		return pool.Settlement{Action: pool.Delete, Reason: a.Reason}, nil
	case outcome.Refuse:
		p.dead = true
		return pool.Settlement{Action: pool.Delete, Reason: a.Reason}, nil
	case outcome.Die:
		p.dead = true
		return pool.Settlement{Action: pool.DeadLetter, Reason: a.Reason}, nil
	case outcome.Wait, outcome.Release:
		p.notYet = time.Now().Add(a.Wait)
		return pool.Settlement{Action: pool.Hide, After: a.Wait, Reason: a.Reason}, nil
	default:
		return pool.Settlement{Action: pool.Delete, Reason: a.Reason}, nil
	}
}

func (b *book) Ping(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pings++
	return b.ill
}

// with runs f under the book's lock.
func (b *book) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// only returns the one page that there is, or an empty one.
func (b *book) only() page {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pages {
		return *p
	}
	return page{}
}
