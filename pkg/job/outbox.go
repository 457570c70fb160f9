package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// sendBatch is how many messages one call to a queue takes.
const sendBatch = 10

const (
	firstSendPause = time.Second // after a failed send, doubled up to maxSendPause
	maxSendPause   = time.Minute
)

// outgoing returns the rows of this unit, from the given one on, that their committer sends at once.
func (u *unit) outgoing(from int) []Outgoing {
	var rows []Outgoing
	for _, r := range u.outbox[from:] {
		if r.DueAt <= u.now && !r.dropped {
			rows = append(rows, r.outgoing(u.now))
		}
	}
	return rows
}

func (r outboxRow) outgoing(now int64) Outgoing {
	o := Outgoing{
		ID: r.ID, Token: r.Token, Queue: r.Queue, FIFO: r.FIFO == 1, Group: r.Group, Dedup: r.Dedup, Body: r.Body, Tenant: r.Tenant,
		DueAt: timeOf(r.DueAt),
	}
	if !o.FIFO {
		o.Delay = min(max(0, micro(r.NotBefore-now)), maxDelay)
	}
	if r.Attributes != "null" {
		_ = json.Unmarshal([]byte(r.Attributes), &o.Attributes) // written by send only
	}
	return o
}

// Dispatch sends rows that a commit has returned and marks them as sent. What cannot be sent is left to the relay;
// the error says so and needs no action. After a failed row, later rows of its FIFO group wait.
func (s *Store) Dispatch(ctx context.Context, to Sender, rows []Outgoing) error {
	unsent, fault := s.dispatch(ctx, to, rows)
	return errors.Join(unsent, fault)
}

// dispatch tells what queues refused from what the database did.
func (s *Store) dispatch(ctx context.Context, to Sender, rows []Outgoing) (unsent, fault error) {
	var sent, failed []Outgoing
	var errs []error
	blocked, silent := map[string]bool{}, map[string]bool{}
	for _, batch := range byQueue(rows) {
		batch = slices.DeleteFunc(batch, func(r Outgoing) bool { return blocked[r.lane()] })
		if len(batch) == 0 {
			continue
		}
		results := send(ctx, to, batch, silent)
		for i, row := range batch {
			if results[i] == nil {
				sent = append(sent, row)
				continue
			}
			failed = append(failed, row)
			errs = append(errs, results[i])
			blocked[row.lane()] = row.FIFO
		}
	}
	if len(sent) > 0 {
		if _, err := s.marks.do(ctx, sent); err != nil {
			fault = fmt.Errorf("mark messages as sent: %w", err)
		}
	}
	if len(failed) > 0 {
		fault = errors.Join(fault, s.sendFailed(ctx, failed))
	}
	return errors.Join(errs...), fault
}

var errSilent = errors.New("the queue has kept silent")

// send gives a queue as long as the rows are leased. One that keeps silent is not asked again for the rows that follow: it must not
// hold up the others.
func send(ctx context.Context, to Sender, batch []Outgoing, silent map[string]bool) []error {
	queue := batch[0].Queue
	if silent[queue] {
		return slices.Repeat([]error{errSilent}, len(batch))
	}
	ctx, cancel := context.WithTimeout(ctx, senderLease)
	defer cancel()
	errs := to.Send(ctx, batch)
	silent[queue] = ctx.Err() != nil
	return errs
}

func (o Outgoing) lane() string { return o.Queue + " " + o.Group }

// byQueue cuts rows into calls of at most ten to one queue. A call holds one row of a FIFO group, so that a later one
// cannot overtake it.
func byQueue(rows []Outgoing) [][]Outgoing {
	var calls [][]Outgoing
	for _, r := range rows {
		i := slices.IndexFunc(calls, r.fits)
		if i < 0 {
			calls = append(calls, nil)
			i = len(calls) - 1
		}
		calls[i] = append(calls[i], r)
	}
	return calls
}

func (o Outgoing) fits(call []Outgoing) bool {
	if call[0].Queue != o.Queue || len(call) == sendBatch {
		return false
	}
	return !o.FIFO || !slices.ContainsFunc(call, func(c Outgoing) bool { return c.Group == o.Group })
}

// markBatch forgets rows that have been sent. A row whose lease another sender has taken meanwhile stays: it will be
// sent twice, and the step's emission makes the second one harmless.
func (s *Store) markBatch(ctx context.Context, groups [][]Outgoing) ([]struct{}, error) {
	rows := slices.Concat(groups...)
	err := s.db.UpdateRelaxed(ctx, "sent", func(tx *sqldb.Tx) error {
		ids, tokens := sentRows(rows)
		tx.ExecLast(q("delete_sent"), sqldb.Rows(ids), sqldb.Rows(tokens))
		return nil
	})
	return make([]struct{}, len(groups)), err
}

// sendFailed lets the rows rest, longer with every failure.
func (s *Store) sendFailed(ctx context.Context, rows []Outgoing) error {
	err := s.db.UpdateRelaxed(ctx, "unsent", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("send_failed"), sqldb.Rows(tokenRows(rows)), firstSendPause.Microseconds(), maxSendPause.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("note failed sends: %w", err)
	}
	return nil
}

// sentRows are the identifiers and the few tokens of rows.
func sentRows(rows []Outgoing) (ids, tokens []idRow) {
	for _, r := range rows {
		ids, tokens = append(ids, idRow{r.ID}), append(tokens, idRow{r.Token})
	}
	byID := func(a, b idRow) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(ids, byID)
	slices.SortFunc(tokens, byID)
	return ids, slices.Compact(tokens)
}

type tokenRow struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

func tokenRows(rows []Outgoing) []tokenRow {
	out := make([]tokenRow, len(rows))
	for i, r := range rows {
		out[i] = tokenRow{r.ID, r.Token}
	}
	slices.SortFunc(out, func(a, b tokenRow) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
