package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

const (
	maxTarget = 512
	maxKey    = 255
)

// Reasons of a refused admission.
const (
	RefusedInFlight = "in_flight_limit" // HTTP 429
	RefusedDailyCap = "daily_cap"       // HTTP 429
	RefusedBalance  = "balance"         // HTTP 402
	RefusedCapacity = "capacity"        // HTTP 503
)

// retrySoon is what a submitter is told to wait when only other jobs stand in the way.
const retrySoon = 30 * time.Second

// ErrVersionOlder means that a newer version of the target has already been taken in, so this one would be superseded.
var ErrVersionOlder = errors.New("a newer version of this target has been taken in")

// Submit admits a job: when it returns nil the job, its charge and its first message are durable. The same version
// with the same digest, or the same idempotency key with the same body, returns the job that exists. Match
// ErrVersionConflict, ErrVersionOlder and ErrIdempotencyMismatch with errors.Is, *Refused with errors.As.
// The message is the relay's; one that runs in this process sends it at once.
func (s *Store) Submit(ctx context.Context, sub Submission) (Job, error) {
	if err := sub.validate(); err != nil {
		return Job{}, fmt.Errorf("submit: %w", err)
	}
	if err := s.hardLimit(ctx); err != nil {
		return Job{}, err
	}
	got, err := s.submissions.do(ctx, sub)
	if err == nil {
		s.metrics.admissions.WithLabelValues(admission(got.err)).Inc()
	}
	if err = errors.Join(err, got.err); err != nil {
		return Job{}, err
	}
	s.hand(got.outgoing)
	if got.fresh != nil {
		return *got.fresh, nil
	}
	j, err := s.Job(ctx, sub.Tenant, got.job)
	j.Known = true
	return j, err
}

func (sub Submission) validate() error {
	switch {
	case !envelope.ValidID(sub.Tenant):
		return errTenant
	case sub.Target == "" || len(sub.Target) > maxTarget || !PlainText(sub.Target):
		return &Invalid{fmt.Sprintf("The target must be 1 to %d bytes of UTF-8 without control characters.", maxTarget)}
	case sub.Version < 0:
		return &Invalid{"The version must be a whole number from 1, or 0 for the next."}
	case sub.Digest == "":
		return errors.New("Digest is empty")
	case !validJSON(sub.Input):
		return errors.New("Input is not JSON in UTF-8")
	case sub.Price < 0:
		return fmt.Errorf("Price is %d, must be 0 or more", sub.Price)
	case sub.First.Stage == "" || sub.First.Queue == "" || sub.First.DLQ == "":
		return errors.New("First needs Stage, Queue and DLQ")
	}
	return validKey(sub.IdempotencyKey)
}

var errTenant = &Invalid{"A tenant's name must be 1 to 64 of a-z, A-Z, 0-9, dot, dash and underscore."}

// PlainText reports whether a text is what both databases keep and a terminal shows: UTF-8 without control characters.
func PlainText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// validJSON is what both databases keep: JSON may hold bytes that are no text, and Postgres takes none.
func validJSON(raw []byte) bool { return json.Valid(raw) && utf8.Valid(raw) }

func admission(err error) string {
	if refused, ok := errors.AsType[*Refused](err); ok {
		return refused.Reason
	}
	if err != nil {
		return "conflict"
	}
	return "admitted"
}

type submitted struct {
	job      string
	fresh    *Job // of a new job, as it is stored
	outgoing []Outgoing
	err      error // this submission's own; the others of the batch go on
}

func (s *Store) submitBatch(ctx context.Context, subs []Submission) ([]submitted, error) {
	var got []submitted
	err := s.db.Update(ctx, "submit", func(tx *sqldb.Tx) error {
		got = make([]submitted, len(subs))
		u := emptyUnit(ctx, tx)
		u.accounts = true
		if err := u.lockAccounts(subs); err != nil {
			return err
		}
		if err := u.lockTargets(subs); err != nil {
			return err
		}
		for i, sub := range subs {
			messages, steps := len(u.outbox), len(u.newSteps)
			id, err := u.submitRow(sub, s.opt)
			if err != nil && !isAnswer(err) {
				return err
			}
			got[i] = submitted{job: id, outgoing: u.outgoing(messages), err: err}
			if len(u.newSteps) > steps {
				got[i].fresh = u.fresh(sub.Target, u.newSteps[steps].stepRow)
			}
		}
		return u.flush()
	})
	return got, err
}

// isAnswer tells what a submitter is told from what undoes the transaction.
func isAnswer(err error) bool {
	_, refused := errors.AsType[*Refused](err)
	return refused || errors.Is(err, ErrVersionConflict) || errors.Is(err, ErrVersionOlder) || errors.Is(err, ErrIdempotencyMismatch) || errors.Is(err, ErrRowSettled)
}

func (u *unit) lockAccounts(subs []Submission) error {
	tenants := map[string]bool{}
	for _, sub := range subs {
		tenants[sub.Tenant] = true
	}
	ids := sortedKeys(tenants)
	for _, t := range ids {
		if _, err := u.tx.Exec(u.ctx, q("ensure_account"), t); err != nil {
			return fmt.Errorf("open account: %w", err)
		}
	}
	if _, err := u.tx.Exec(u.ctx, q("lock_accounts"), sqldb.Rows(idRows(ids))); err != nil {
		return fmt.Errorf("lock accounts: %w", err)
	}
	return u.tx.One(u.ctx, q("clock"), nil, &u.now)
}

// nameRow names a target.
type nameRow struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
}

// lockTargets locks the targets that exist, in one order: a submission locks its own later, in the order of arrival.
func (u *unit) lockTargets(subs []Submission) error {
	if len(subs) == 1 {
		return nil
	}
	names := make([]nameRow, len(subs))
	for i, sub := range subs {
		names[i] = nameRow{sub.Tenant, sub.Target}
	}
	if _, err := u.tx.Exec(u.ctx, q("lock_targets"), sqldb.Rows(names)); err != nil {
		return fmt.Errorf("lock targets: %w", err)
	}
	return nil
}

// submitRow is submit that knows what an import's row has become.
func (u *unit) submitRow(sub Submission, opt Options) (string, error) {
	if sub.Row == nil {
		return u.submit(sub, opt)
	}
	if known, err := u.rowJob(*sub.Row); known != "" || err != nil {
		return known, err
	}
	id, err := u.submit(sub, opt)
	if err != nil {
		return "", err
	}
	return id, u.acceptRow(*sub.Row, id)
}

// submit admits one job. The idempotency key comes first: of two equal requests the second waits there for the first.
func (u *unit) submit(sub Submission, opt Options) (string, error) {
	id := u.newID()
	if sub.IdempotencyKey != "" {
		known, err := takeKey(u.ctx, u.tx, sub.Tenant, sub.IdempotencyKey, sub.BodyHash, id)
		if known != "" || err != nil {
			return known, err
		}
	}
	got, err := u.admit(sub, id, opt)
	if sub.IdempotencyKey == "" || err == nil && got == id {
		return got, err
	}
	if err != nil { // a refused request may be made again
		if _, dropErr := u.tx.Exec(u.ctx, q("drop_idempotency_key"), sub.Tenant, sub.IdempotencyKey); dropErr != nil {
			return "", fmt.Errorf("free the idempotency key: %w", dropErr)
		}
		return "", err
	}
	_, err = u.tx.Exec(u.ctx, q("point_idempotency_key"), sub.Tenant, sub.IdempotencyKey, got)
	return got, err
}

// takeKey takes an idempotency key for what will have the identifier, or returns what an equal request has made before.
func takeKey(ctx context.Context, tx *sqldb.Tx, tenant, key, bodyHash, id string) (known string, err error) {
	n, err := tx.Exec(ctx, q("take_idempotency_key"), tenant, key, bodyHash, id)
	if err != nil || n == 1 {
		return "", err
	}
	var hash string
	if err := tx.One(ctx, q("read_idempotency_key"), []any{tenant, key}, &hash, &known); err != nil {
		return "", fmt.Errorf("read idempotency key: %w", err)
	}
	if hash != bodyHash {
		return "", ErrIdempotencyMismatch
	}
	return known, nil
}

func validKey(key string) error {
	if len(key) > maxKey || !PlainText(key) {
		return &Invalid{fmt.Sprintf("The idempotency key must have at most %d bytes of UTF-8 and no control characters.", maxKey)}
	}
	return nil
}

func (u *unit) admit(sub Submission, id string, opt Options) (string, error) {
	t, err := u.lockTarget(sub)
	if err != nil {
		return "", err
	}
	if sub.Version == 0 {
		sub.Version = t.Latest + 1
	}
	if sub.Version > t.Latest {
		return u.admitNew(sub, id, t, opt)
	}
	var known, digest string
	err = u.tx.One(u.ctx, q("job_of_version"), []any{t.ID, sub.Version}, &known, &digest)
	switch {
	case err == nil && digest == sub.Digest:
		return known, nil
	case err == nil:
		return "", ErrVersionConflict
	case !errors.Is(err, sql.ErrNoRows):
		return "", fmt.Errorf("look for version: %w", err)
	case sub.Version < t.Ingested:
		return "", ErrVersionOlder
	}
	return u.admitNew(sub, id, t, opt)
}

func (u *unit) admitNew(sub Submission, id string, t *targetRow, opt Options) (string, error) {
	l, err := u.charge(sub)
	if err != nil {
		return "", err
	}
	held, err := u.mustWait(l, sub.First.Window, opt.SoftLimit)
	if err != nil {
		return "", err
	}
	return id, u.create(sub, id, t, held)
}

// fresh is a new job as Store.Job would show it.
func (u *unit) fresh(target string, s *stepRow) *Job {
	j := &Job{
		ID: s.Job, Tenant: s.Tenant, Target: target, Version: s.job.Version, State: State(s.job.State), Seq: 2, CreatedAt: timeOf(u.now),
		Steps: []Step{{ID: s.ID, Stage: s.Stage, State: stepState(s.State, s.Stage, false, nil), CreatedAt: timeOf(u.now)}},
	}
	j.derive()
	return j
}

func (u *unit) lockTarget(sub Submission) (*targetRow, error) {
	t := &targetRow{}
	err := u.tx.One(u.ctx, q("lock_target"), []any{u.newID(), sub.Tenant, sub.Target}, &t.ID, &t.Name, &t.Latest, &t.Ingested, &t.Current, &t.CurJob)
	if err != nil {
		return nil, fmt.Errorf("lock target: %w", err)
	}
	return keep(u.targets, t.ID, t), nil
}

// create stores the job with its first step. One that must wait is held, and no message is sent for it.
func (u *unit) create(sub Submission, id string, t *targetRow, held bool) error {
	j := &jobRow{ID: id, Tenant: sub.Tenant, Target: t.ID, Version: sub.Version, State: jobActive, Price: sub.Price, GapsJSON: "[]"}
	first := plain()
	first.IsFirst = 1
	writes := []sqldb.Statement{{Text: q("insert_entry"), Args: u.entryArgs(j, entryCharge, -j.Price, "")}}
	if held {
		j.State, first.State = jobWaiting, stepHeld
		writes = append(writes, sqldb.Statement{Text: q("job_waits"), Args: []any{j.Tenant}})
	}
	writes = append(writes, sqldb.Statement{
		Text: q("insert_job"), Args: []any{id, j.Tenant, j.Target, j.Version, sub.Digest, j.State, j.Price, u.now},
	})
	if sub.Webhook != "" {
		writes = append(writes, sqldb.Statement{Text: q("set_webhook"), Args: []any{id, sub.Webhook}})
	}
	if sub.Upload != "" {
		writes = append(writes, sqldb.Statement{Text: q("take_upload"), Args: []any{sub.Upload}})
	}
	changed, err := u.tx.ExecAll(u.ctx, writes)
	if err != nil {
		return fmt.Errorf("store job: %w", err)
	}
	if changed[len(changed)-1] != 1 {
		return fmt.Errorf("store job: %w: %s", ErrUploadGone, sub.Upload)
	}
	t.Latest, t.dirty = max(t.Latest, sub.Version), true
	u.addStep(j, sub.First, sub.Input, sub.TraceParent, first)
	return nil
}
