package job

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Effect is a call to somebody else that cannot be undone.
type Effect struct {
	ID     string // stable over executions: the provider's idempotency key
	Done   bool
	Result []byte // when Done
	Again  bool   // an earlier execution has begun it and its outcome is unknown: ask, or repeat with the same ID
}

// EffectBegin returns the identifier of a step's named effect and stores it before the call is made. It also
// prepares the effect to be awaited. ErrNotOwner when the claim has lost its step, *Invalid for a name that cannot be kept.
func (s *Store) EffectBegin(ctx context.Context, c Claim, name string) (Effect, error) {
	if name == "" || !PlainText(name) {
		return Effect{}, &Invalid{"The effect's name must be UTF-8 without control characters, and not empty."}
	}
	var e Effect
	err := s.update(ctx, "effect_begin", locks{level: lockSteps, steps: []string{c.Step}}, func(u *unit) error {
		e = Effect{}
		if st := u.steps[c.Step]; u.stale(st, c) != nil || !st.live(u.now) {
			return ErrNotOwner
		}
		fresh, err := u.tx.Exec(ctx, q("begin_effect"), u.newID(), c.Step, name)
		if err != nil {
			return err
		}
		var state, result string
		if err := u.tx.One(ctx, q("read_effect"), []any{c.Step, name}, &e.ID, &state, &result); err != nil {
			return err
		}
		e.Done, e.Again = state == "done", fresh == 0 && state != "done"
		if e.Result, err = base64.StdEncoding.DecodeString(result); err != nil {
			return fmt.Errorf("decode result: %w", err)
		}
		_, err = u.tx.Exec(ctx, q("open_await"), e.ID, c.Step)
		return err
	})
	if err != nil {
		return Effect{}, fmt.Errorf("begin effect: %w", err)
	}
	return e, nil
}

// EffectDone stores the result of an effect; later executions of the step get it from EffectBegin instead of calling.
// It is accepted from an owner that has lost its lease too: what has happened has happened. That one's takes the place of no other.
func (s *Store) EffectDone(ctx context.Context, c Claim, id string, result []byte) error {
	err := s.db.Update(ctx, "effect_done", func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("end_effect"), id, c.Step, base64.StdEncoding.EncodeToString(result), c.Token)
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("end effect: %w", err)
	}
	return nil
}

// Event is what a provider reported.
type Event struct {
	Provider, ID string // together name the event: it is stored once however often it comes
	Effect       string // which it answers
	Body         json.RawMessage
}

// Receive stores a provider's event and, if a step is parked on its effect, lets that step go on. False: the event was
// known. An event that comes before its step has parked waits in the inbox.
func (s *Store) Receive(ctx context.Context, e Event) (bool, error) {
	switch {
	case !validJSON(e.Body):
		return false, errors.New("receive event: Body is not JSON in UTF-8")
	case !PlainText(e.ID) || !PlainText(e.Effect):
		return false, &Invalid{"The event's identifier and its effect must be UTF-8 without control characters."}
	}
	fresh := false
	err := s.wake(ctx, "receive_event", e.Effect, false, func(u *unit) error {
		n, err := u.tx.Exec(ctx, q("insert_event"), e.Provider, e.ID, e.Effect, string(e.Body))
		fresh = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("receive event: %w", err)
	}
	return fresh, nil
}

// wake resumes the step that is parked on an effect, if there is something to tell it or it is overdue. Everybody locks the
// await's row before its step, and looks into the inbox and adds to it under that lock: no event is missed, and of two the one that
// counts as later came later.
func (s *Store) wake(ctx context.Context, name, effect string, overdue bool, store func(*unit) error) error {
	return s.decide(ctx, name, func(u *unit) error {
		step, deadline, err := u.lockAwait(effect)
		if err != nil {
			return err
		}
		if err := store(u); err != nil || step == "" {
			return err
		}
		if err := u.load(lockAll, []string{step}); err != nil {
			return err
		}
		return u.resume(u.steps[step], effect, overdue && deadline <= u.now) // it may have been parked anew since somebody looked
	})
}

// lockAwait returns the step that is parked on an effect, if one is, and until when.
func (u *unit) lockAwait(effect string) (parked string, deadline int64, err error) {
	var step, state string
	err = u.tx.One(u.ctx, q("lock_await"), []any{effect}, &step, &state, &deadline)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && state != awaitParked:
		return "", 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("lock await: %w", err)
	}
	return step, deadline, nil
}

const awaitParked = "parked"

// resume gives a parked step the event that has come for it and a new message. Without an event only one that is overdue goes on:
// it must ask.
func (u *unit) resume(s *stepRow, effect string, overdue bool) error {
	bodies, err := u.unseen(effect)
	if err != nil || len(bodies) == 0 && !overdue {
		return err
	}
	if _, err := u.tx.Exec(u.ctx, q("settle_await"), effect); err != nil {
		return fmt.Errorf("settle await: %w", err)
	}
	if s == nil || s.State != stepAwaiting {
		return nil
	}
	s.Event = ""
	if len(bodies) > 0 {
		s.Event = bodies[0]
	}
	u.set(s, stepQueued)
	s.NotBefore = 0
	u.emit(s)
	return nil
}

// park lets a step wait for its effect. The await's row has been locked before the step's.
// A step that awaits an effect which it has not begun would wait for ever: that is a fault of its stage.
func (u *unit) park(s *stepRow, v outcome.Verdict) (Settle, bool, error) {
	deadline := int64(0)
	if !v.Deadline.IsZero() { // by the database's clock: the worker's may be off
		deadline = u.now + time.Until(v.Deadline).Microseconds()
	}
	n, err := u.tx.Exec(u.ctx, q("park_await"), v.Effect, s.ID, deadline)
	if err != nil {
		return Settle{}, false, fmt.Errorf("park: %w", err)
	}
	if n == 0 {
		u.die(s, ReasonAwaitUnknown, ReasonAwaitUnknown)
		return Settle{Do: Delete, Reason: ReasonAwaitUnknown}, true, nil
	}
	u.set(s, stepAwaiting)
	return Settle{Do: Delete, Reason: v.Reason}, true, u.resume(s, v.Effect, false)
}

// ReasonAwaitUnknown is the reason of a death by awaiting what was never begun.
const ReasonAwaitUnknown = "await_unknown"

// unseen returns the latest event of an effect that no execution has been given yet, if there is one.
func (u *unit) unseen(effect string) ([]string, error) {
	events, err := u.list(q("unseen_events"), effect)
	if err != nil {
		return nil, fmt.Errorf("read inbox: %w", err)
	}
	return events, nil
}

// expireAwaits wakes steps whose provider has kept silent until the deadline: they ask it.
func (s *Store) expireAwaits(ctx context.Context) error {
	effects, err := s.strings(ctx, "overdue_awaits")
	if err != nil {
		return fmt.Errorf("look for overdue awaits: %w", err)
	}
	var errs []error // one await's fault is not the others'
	for _, effect := range effects {
		errs = append(errs, s.wake(ctx, "expire_await", effect, true, func(*unit) error { return nil }))
	}
	return errors.Join(errs...)
}
