package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const batch = 10

// groups is how many message groups the FIFO load uses.
const groups = 64

// ahead bounds how far the producers run before the consumers, so that no server is measured on a growing backlog.
const ahead = 5_000

// caller makes the three calls of the load. Each producer and consumer has one to itself.
type caller interface {
	send(ctx context.Context, first int64) error // a batch of messages numbered from first
	receive(ctx context.Context) (handles []string, err error)
	remove(ctx context.Context, handles []string) error
}

// load is the traffic on one queue.
type load struct {
	dial     func() (caller, error)
	url      string // of the server
	body     int    // bytes of a message body
	sent     atomic.Int64
	consumed atomic.Int64
	receives atomic.Int64

	failing  sync.Mutex
	failures int
	first    error
}

func (p plan) newLoad(ctx context.Context, row series, url string) (*load, error) {
	l := &load{url: url, body: p.BodyBytes}
	if row.server == "echo" {
		return l, nil
	}
	q, err := newQueue(ctx, url, row.kind == "fifo", p.BodyBytes)
	l.dial = func() (caller, error) { return q, nil }
	if row.client == plainClient && err == nil {
		l.dial = func() (caller, error) { return dialPlain(url, *q.url, q.fifo, p.BodyBytes) }
	}
	return l, err
}

func (l *load) produce(ctx context.Context) {
	c, err := l.dial()
	if err != nil {
		l.note(ctx, err)
		return
	}
	for ctx.Err() == nil {
		if l.sent.Load()-l.consumed.Load() > ahead {
			<-time.After(time.Millisecond)
			continue
		}
		l.note(ctx, c.send(ctx, l.sent.Add(batch)-batch))
	}
}

func (l *load) consume(ctx context.Context) {
	c, err := l.dial()
	if err != nil {
		l.note(ctx, err)
		return
	}
	for ctx.Err() == nil {
		handles, err := c.receive(ctx)
		if err != nil || len(handles) == 0 {
			l.note(ctx, err)
			continue
		}
		l.receives.Add(1)
		if err = c.remove(ctx, handles); err == nil {
			l.consumed.Add(int64(len(handles)))
		}
		l.note(ctx, err)
	}
}

// note counts failures, but not those of the end of the measurement.
func (l *load) note(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Millisecond {
		return // a connection's deadline may come just before the context's
	}
	l.failing.Lock()
	defer l.failing.Unlock()
	if l.failures++; l.first == nil {
		l.first = err
	}
}

// failure tells of the calls that failed, if any.
func (l *load) failure() string {
	l.failing.Lock()
	defer l.failing.Unlock()
	if l.failures == 0 {
		return ""
	}
	return fmt.Sprintf("%d failed calls, the first: %v", l.failures, l.first)
}
