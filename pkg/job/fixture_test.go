package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// fixture is a store with queues that keep what was sent to them.
type fixture struct {
	t      *testing.T
	ctx    context.Context
	s      *job.Store
	queues *queues
}

func newFixture(t *testing.T, s *job.Store) *fixture {
	return &fixture{t: t, ctx: t.Context(), s: s, queues: &queues{}}
}

// queues is a Sender that remembers. A failing entry makes one queue refuse.
type queues struct {
	mu      sync.Mutex
	sent    []job.Outgoing
	failing map[string]error
}

func (q *queues) Send(_ context.Context, rows []job.Outgoing) []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	errs := make([]error, len(rows))
	for i, r := range rows {
		if errs[i] = q.failing[r.Queue]; errs[i] == nil {
			q.sent = append(q.sent, r)
		}
	}
	return errs
}

func (q *queues) all() []job.Outgoing {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]job.Outgoing(nil), q.sent...)
}

// to returns what was sent to a queue and forgets it, as if it had been received.
func (q *queues) take(queue string) []job.Outgoing {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken, kept []job.Outgoing
	for _, r := range q.sent {
		if r.Queue == queue {
			taken = append(taken, r)
		} else {
			kept = append(kept, r)
		}
	}
	q.sent = kept
	return taken
}

// route is where a stage's messages go; compile has a standard queue as in the shipped pipeline.
func route(stage string) job.Route {
	return job.Route{Stage: stage, Queue: "q-" + stage, DLQ: "dlq-" + stage, FIFO: stage != "compile", Join: stage == "publish"}
}

func next(stage string) *job.Route {
	r := route(stage)
	return &r
}

func (f *fixture) submission(target string) job.Submission {
	return job.Submission{
		Tenant: "acme", Target: target, Digest: "sha-" + target, Input: json.RawMessage(`{"v":1}`), First: route("ingest"), Price: 5,
	}
}

func (f *fixture) submit(sub job.Submission) job.Job {
	f.t.Helper()
	j, err := f.s.Submit(f.ctx, sub)
	if err != nil {
		f.t.Fatalf("submit: %v", err)
	}
	f.pump(nil)
	return j
}

// pump sends what the store has handed to its relay, and rows of a commit.
func (f *fixture) pump(rows []job.Outgoing) {
	f.t.Helper()
	if err := f.s.Dispatch(f.ctx, f.queues, append(f.s.Handed(), rows...)); err != nil {
		f.t.Fatalf("dispatch: %v", err)
	}
}

// message takes the only message of a stage's queue.
func (f *fixture) message(stage string) job.Outgoing {
	f.t.Helper()
	rows := f.queues.take("q-" + stage)
	if len(rows) != 1 {
		f.t.Fatalf("%d messages in q-%s, want 1", len(rows), stage)
	}
	return rows[0]
}

func request(row job.Outgoing, stage string) job.ClaimRequest {
	b, err := envelope.Decode(row.Body)
	if err != nil {
		panic(err)
	}
	return job.ClaimRequest{Step: b.Step, Tenant: b.Tenant, Emission: b.Emission, Stage: stage, Worker: "w1", Lease: time.Minute}
}

// claim takes the only message of a stage's queue and claims its step.
func (f *fixture) claim(stage string) job.Claim {
	f.t.Helper()
	return f.claimRow(f.message(stage), stage)
}

func (f *fixture) claimRow(row job.Outgoing, stage string) job.Claim {
	f.t.Helper()
	c, err := f.s.Claim(f.ctx, request(row, stage))
	if err != nil {
		f.t.Fatalf("claim %s: %v", stage, err)
	}
	return c
}

// refused claims and expects a refusal.
func (f *fixture) refused(r job.ClaimRequest) *job.ClaimRefused {
	f.t.Helper()
	_, err := f.s.Claim(f.ctx, r)
	var no *job.ClaimRefused
	if !errors.As(err, &no) {
		f.t.Fatalf("claim returned %v, want a refusal", err)
	}
	f.pump(no.Outgoing)
	return no
}

func (f *fixture) publish(p job.Publication) job.Published {
	f.t.Helper()
	if p.Output == nil {
		p.Output = json.RawMessage(`{"done":"` + p.Claim.Stage + `"}`)
	}
	got, err := f.s.Publish(f.ctx, p)
	if err != nil {
		f.t.Fatalf("publish %s: %v", p.Claim.Stage, err)
	}
	f.pump(got.Outgoing)
	return got
}

// accepted publishes and expects it to count.
func (f *fixture) accepted(p job.Publication) job.Published {
	f.t.Helper()
	got := f.publish(p)
	if !got.Accepted {
		f.t.Fatalf("publication of %s refused: %+v", p.Claim.Stage, got)
	}
	return got
}

// run claims and publishes one stage.
func (f *fixture) run(stage, then string) {
	f.t.Helper()
	p := job.Publication{Claim: f.claim(stage)}
	if then != "" {
		p.Next = next(then)
	} else {
		p.Result = &job.Result{Dir: "jobs/x"}
	}
	f.accepted(p)
}

func (f *fixture) end(c job.Claim, err error) job.Ended {
	f.t.Helper()
	return f.endAt(c, err, false)
}

// ending is how an execution that returned err is reported.
func ending(c job.Claim, err error) job.Ending {
	v := outcome.Of(err)
	return job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, c.Attempt, 0)}
}

func (f *fixture) endAt(c job.Claim, err error, limit bool) job.Ended {
	f.t.Helper()
	e := ending(c, err)
	e.ReceivesAtLimit = limit
	got, endErr := f.s.End(f.ctx, e)
	if endErr != nil {
		f.t.Fatalf("end %s: %v", c.Stage, endErr)
	}
	f.pump(got.Outgoing)
	return got
}

func (f *fixture) job(id string) job.Job {
	f.t.Helper()
	j, err := f.s.Job(f.ctx, "acme", id)
	if err != nil {
		f.t.Fatalf("job: %v", err)
	}
	return j
}

func (f *fixture) state(id string, want job.State) job.Job {
	f.t.Helper()
	j := f.job(id)
	if j.State != want {
		f.t.Fatalf("job is %s, want %s: %+v", j.State, want, j)
	}
	return j
}

func (f *fixture) age(d time.Duration) {
	f.t.Helper()
	if err := f.s.Age(f.ctx, d); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) balance() int64 {
	f.t.Helper()
	a, err := f.s.Account(f.ctx, "acme")
	if err != nil {
		f.t.Fatal(err)
	}
	return a.Balance
}

// sound asks the questions that must have the same answer at any moment.
func (f *fixture) sound() {
	f.t.Helper()
	for _, fault := range faults(f.ctx, f.s, f.queues.all()) {
		f.t.Error(fault)
	}
}

// violations are queries that must find nothing.
var violations = map[string]string{
	"an account's balance is the sum of its entries": `SELECT tenant FROM account a
		WHERE balance <> (SELECT COALESCE(SUM(e.amount), 0) FROM account_entry e WHERE e.tenant = a.tenant)`,
	"an account's places are its unfinished jobs": `SELECT tenant FROM account a
		WHERE in_flight <> (SELECT COUNT(*) FROM job j WHERE j.tenant = a.tenant AND j.state IN ('waiting', 'active'))`,
	"nobody pays for a failure": `SELECT id FROM job j WHERE state IN ('failed', 'refused') AND recovered = 0
		AND (SELECT COALESCE(SUM(e.amount), 0) FROM account_entry e WHERE e.job = j.id) <> 0`,
	"an open execution belongs to a running step": `SELECT a.id FROM attempt a JOIN step s ON s.id = a.step
		WHERE a.outcome = 'running' AND (s.state <> 'running' OR s.attempt <> a.id)`,
	"a running step has an open execution": `SELECT s.id FROM step s WHERE s.state = 'running'
		AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.id = s.attempt AND a.outcome = 'running')`,
	"attempts are the executions that count": `SELECT s.id FROM step s WHERE s.rounds = 1
		AND s.attempts <> (SELECT COUNT(*) FROM attempt a WHERE a.step = s.id AND a.counted = 1)`,
	"a done step has one published execution": `SELECT s.id FROM step s WHERE s.state = 'done'
		AND 1 <> (SELECT COUNT(*) FROM attempt a WHERE a.step = s.id AND a.outcome = 'done')`,
	"an ended job has no open step unless it failed": `SELECT s.id FROM step s JOIN job j ON j.id = s.job
		WHERE j.state IN ('completed', 'completed_with_gaps', 'refused', 'cancelled', 'superseded') AND s.phase IN (1, 3)`,
	"parts left are the parts that are not done": `SELECT p.id FROM step p
		WHERE EXISTS (SELECT 1 FROM step c WHERE c.parent = p.id)
		AND p.parts_left <> (SELECT COUNT(*) FROM step c WHERE c.parent = p.id AND c.state <> 'done')`,
	"an active job goes on": `SELECT j.id FROM job j WHERE j.state = 'active'
		AND NOT EXISTS (SELECT 1 FROM step s WHERE s.job = j.id AND s.state IN ('queued', 'running', 'awaiting', 'held'))`,
	"the current result is the highest completed version": `SELECT t.id FROM target t WHERE t.current_version <>
		(SELECT COALESCE(MAX(j.version), 0) FROM job j WHERE j.target = t.id AND j.state IN ('completed', 'completed_with_gaps'))`,
	"no unfinished job is older than what was taken in": `SELECT j.id FROM job j JOIN target t ON t.id = j.target
		WHERE j.version < t.ingested AND j.state IN ('waiting', 'active')`,
	"phases follow states": `SELECT id FROM step WHERE phase <> CASE WHEN state IN ('queued', 'running') THEN 1 WHEN state = 'dead' THEN 2 WHEN state = 'held' THEN 3 ELSE 0 END`,
	"an import's counts are those of its rows": `SELECT id FROM import i
		WHERE row_count <> (SELECT COUNT(*) FROM import_row r WHERE r.import = i.id)
		OR accepted <> (SELECT COUNT(*) FROM import_row r WHERE r.import = i.id AND r.state = 'accepted')
		OR refused <> (SELECT COUNT(*) FROM import_row r WHERE r.import = i.id AND r.state = 'refused')`,
	"no two rows have one job": `SELECT MIN(import) FROM import_row WHERE job <> '' GROUP BY job HAVING COUNT(*) > 1`,
	"an account's waiting jobs are counted": `SELECT tenant FROM account a
		WHERE waiting <> (SELECT COUNT(*) FROM job j WHERE j.tenant = a.tenant AND j.state = 'waiting')`,
	"no event is left in the inbox of a step that waits for it": `SELECT w.step FROM await w WHERE w.state = 'parked'
		AND EXISTS (SELECT 1 FROM inbox i WHERE i.effect = w.effect AND i.at > w.seen)`,
	"a step that awaits is parked": `SELECT s.id FROM step s WHERE s.state = 'awaiting'
		AND NOT EXISTS (SELECT 1 FROM await w WHERE w.step = s.id AND w.state = 'parked')`,
	"an unsent message has a step":       `SELECT o.id FROM outbox o WHERE NOT EXISTS (SELECT 1 FROM step s WHERE s.id = o.step)`,
	"an event is one item of the inbox":  `SELECT MIN(event) FROM inbox GROUP BY provider, event HAVING COUNT(*) > 1`,
	"a job is charged and refunded once": `SELECT MIN(job) FROM account_entry WHERE kind IN ('charge', 'refund') GROUP BY job, kind HAVING COUNT(*) > 1`,
	"an effect of a step is one":         `SELECT MIN(step) FROM effect GROUP BY step, name HAVING COUNT(*) > 1`,
	"crashes are the executions whose owner vanished": `SELECT s.id FROM step s WHERE s.rounds = 1
		AND s.crashes <> (SELECT COUNT(*) FROM attempt a WHERE a.step = s.id AND a.outcome = 'crashed')`,
	"a job waits with its first step": `SELECT j.id FROM job j JOIN step s ON s.job = j.id WHERE s.is_first = 1
		AND (j.state = 'waiting') <> (s.state = 'held')`,
}

// faults returns what is wrong with a store, given the messages that its queues hold.
func faults(ctx context.Context, s *job.Store, messages []job.Outgoing) []string {
	var found []string
	for claim, query := range violations {
		ids, err := s.Strings(ctx, query)
		if err != nil {
			found = append(found, fmt.Sprintf("%s: %v", claim, err))
		}
		for _, id := range ids {
			found = append(found, fmt.Sprintf("not true of %s: %s", id, claim))
		}
	}
	stands := map[string]bool{}
	for _, m := range messages {
		stands[m.Body] = true
	}
	unsent, err := s.Strings(ctx, `SELECT body FROM outbox`)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, body := range unsent {
		stands[body] = true
	}
	bodies, err := s.Strings(ctx, `SELECT '{"v":1,"step":"' || id || '","emission":' || emission || ',"tenant":"' || tenant || '"}'
		FROM step WHERE phase = 1 AND NOT (state = 'running' AND lease_until > now_us())`)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, body := range bodies {
		if !stands[body] {
			found = append(found, "a step without message and owner: "+body)
		}
	}
	return append(found, strangers(ctx, s, messages)...)
}

// strangers returns the messages that no step of the record has ever sent. Copies of old ones are garbage, and allowed.
func strangers(ctx context.Context, s *job.Store, messages []job.Outgoing) []string {
	steps, err := s.Strings(ctx, `SELECT id || ' ' || emission FROM step`)
	if err != nil {
		return []string{err.Error()}
	}
	newest := map[string]int64{}
	for _, line := range steps {
		var id string
		var emission int64
		if _, err := fmt.Sscan(line, &id, &emission); err != nil {
			return []string{err.Error()}
		}
		newest[id] = emission
	}
	var found []string
	for _, m := range messages {
		b, err := envelope.Decode(m.Body)
		if emission, known := newest[b.Step]; err != nil || !known || b.Emission > emission {
			found = append(found, "a message without a step: "+m.Body)
		}
	}
	return found
}
