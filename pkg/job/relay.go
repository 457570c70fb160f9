package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

const (
	relayEvery = 250 * time.Millisecond // between looks for rows that are due; what this process commits is sent at once
	relayBatch = 100
	handedRows = 1000 // what a process may have waiting for its own relay; the rest is swept up later
)

// Relay sends, until ctx ends, the messages that this process's own commits have handed to it, at once, and those that
// are due and that nobody has sent: a committer died or could not, or the message had to wait. Of all the processes
// that run it one at a time sweeps, the holder of the lease row. It returns nil when ctx ends; faults of the
// database and of queues are waited out.
func (s *Store) Relay(ctx context.Context, to Sender) error {
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case rows := <-s.handed:
			// A row that cannot be sent now rests in the outbox, where the sweep finds it.
			_, fault := s.dispatch(ctx, to, s.moreHanded(rows))
			s.tell(ctx, fault)
		case <-tick.C:
			s.sweepOutbox(ctx, to)
		}
	}
}

// moreHanded adds what else is waiting, up to one batch.
func (s *Store) moreHanded(rows []Outgoing) []Outgoing {
	for len(rows) < relayBatch {
		select {
		case more := <-s.handed:
			rows = append(rows, more...)
		default:
			return rows
		}
	}
	return rows
}

// hand gives rows to the relay of this process. If none runs, or it is too busy, the leader's sweep finds them
// when the lease that they were born with ends.
func (s *Store) hand(rows []Outgoing) {
	if len(rows) == 0 {
		return
	}
	select {
	case s.handed <- rows:
	default:
	}
}

func (s *Store) sweepOutbox(ctx context.Context, to Sender) {
	for ctx.Err() == nil && s.leads(ctx) {
		rows, err := s.takeDue(ctx)
		s.tell(ctx, err)
		if err != nil || len(rows) == 0 {
			return
		}
		_, fault := s.dispatch(ctx, to, rows) // what cannot be sent rests
		s.tell(ctx, fault)
	}
}

// tell reports a fault of the database that is waited out. The end of ctx is none.
func (s *Store) tell(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && s.opt.Failed != nil {
		s.opt.Failed(err)
	}
}

// takeDue leases due rows to this relay. It looks before it locks, because mostly there is nothing.
func (s *Store) takeDue(ctx context.Context) ([]Outgoing, error) {
	due := false
	err := s.db.View(ctx, "outbox_due", func(tx *sqldb.Tx) error {
		return tx.One(ctx, q("outbox_due"), nil, &due)
	})
	if err != nil || !due {
		return nil, err
	}
	var rows []Outgoing
	err = s.db.UpdateRelaxed(ctx, "relay", func(tx *sqldb.Tx) error {
		rows = nil
		return tx.Query(ctx, q("take_due"), func(scan func(...any) error) error {
			var r outboxRow
			var now int64
			err := scan(&r.ID, &r.Token, &r.DueAt, &r.NotBefore, &r.Queue, &r.FIFO, &r.Group, &r.Dedup, &r.Body, &r.Tenant, &r.Attributes, &now)
			rows = append(rows, r.outgoing(now))
			return err
		}, newToken(), senderLease.Microseconds(), relayBatch)
	})
	if err != nil {
		return nil, fmt.Errorf("take messages that are due: %w", err)
	}
	slices.SortFunc(rows, func(a, b Outgoing) int { return cmp.Compare(a.ID, b.ID) })
	return rows, nil
}
