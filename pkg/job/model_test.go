package job_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// The model says in memory, without locks, queues or clocks, what a random history must have made of the record.

const (
	modelCrashes  = 3
	modelAttempts = 3
	modelPrice    = 7
	modelJobs     = 2 // of the tenant, under way
	modelParts    = 3
)

// modelStep: a step of the model. stage 0 fans out into two parts of stage 1, which join in stage 2.
type modelStep struct {
	id       string
	job      *modelJob
	stage    string
	state    string // held, queued, running, awaiting, done, dead, refused, gone
	emission int64
	attempts int
	crashes  int
	rounds   int
	claim    *job.Claim // of the owner; kept after the lease has ended
	expired  bool
	effect   string
	heard    bool // the effect's event has been received
	seen     bool // and given to an execution
}

type modelJob struct {
	id        string
	target    string
	version   int64
	state     string // waiting, active, completed, failed, refused, cancelled, superseded
	recovered int
	ran       bool
	refunded  bool
	steps     []*modelStep
}

type modelTarget struct{ latest, ingested, current int64 }

type machine struct {
	f       *fixture
	answers *forgetful
	jobs    []*modelJob
	targets map[string]*modelTarget
	stale   []job.Claim // of owners that have lost their step
}

func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := open(t, freshURL(t, kind), job.Options{MaxConns: 2})
			if s.Postgres() {
				injectFaults(t, s)
			}
			answers := &forgetful{}
			s.Inject(func(write, committed bool) error {
				if write && !committed && rand.IntN(50) == 0 {
					return &pgconn.PgError{Code: []string{"40001", "40P01"}[rand.IntN(2)]} // what others may do to any commit
				}
				return answers.fault(write, committed)
			})
			rapid.Check(t, func(rt *rapid.T) {
				empty(t, s)
				m := &machine{f: newFixture(t, s), answers: answers, targets: map[string]*modelTarget{}}
				rt.Repeat(map[string]func(*rapid.T){
					"submit": m.submit, "claim": m.claim, "publish": m.publish, "fail": m.fail, "defer": m.deferral, "reject": m.reject,
					"expire": m.expire, "await": m.await, "call back": m.callBack, "cancel": m.cancel, "redrive": m.redrive,
					"sweep": m.sweep, "stale": m.staleOwner, "renew": m.renew, "enter": m.enter, "": m.agree,
				})
			})
		})
	}
}

func empty(t *testing.T, s *job.Store) {
	for _, table := range []string{"account", "account_entry", "target", "job", "step", "attempt", "outbox", "inbox", "effect", "await"} {
		if err := s.Change(t.Context(), "DELETE FROM "+table); err != nil {
			t.Fatal(err)
		}
	}
}

// injectFaults lets Postgres undo one write in fifty as if others were in the way, sometimes in the middle of a unit.
func injectFaults(t *testing.T, s *job.Store) {
	statements := []string{`CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF random() < 0.01 THEN RAISE EXCEPTION 'injected' USING ERRCODE = 'serialization_failure'; END IF;
			IF random() < 0.01 THEN RAISE EXCEPTION 'injected' USING ERRCODE = 'deadlock_detected'; END IF;
			RETURN NULL;
		END $$`}
	for _, table := range []string{"step", "attempt", "outbox", "job", "account", "inbox"} {
		statements = append(statements, "CREATE TRIGGER stumble AFTER INSERT OR UPDATE ON "+table+" FOR EACH STATEMENT EXECUTE FUNCTION stumble()")
	}
	for _, text := range statements {
		if err := s.Change(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *machine) steps(states ...string) []*modelStep {
	var found []*modelStep
	for _, j := range m.jobs {
		for _, s := range j.steps {
			if slices.Contains(states, s.state) {
				found = append(found, s)
			}
		}
	}
	return found
}

func (m *machine) pick(t *rapid.T, states ...string) *modelStep {
	found := m.steps(states...)
	if len(found) == 0 {
		t.Skip("no such step")
	}
	return found[rapid.IntRange(0, len(found)-1).Draw(t, "step")]
}

// owned picks a running step whose lease stands.
func (m *machine) owned(t *rapid.T) *modelStep {
	found := slices.DeleteFunc(m.steps("running"), func(s *modelStep) bool { return s.expired })
	if len(found) == 0 {
		t.Skip("no owner")
	}
	return found[rapid.IntRange(0, len(found)-1).Draw(t, "step")]
}

func (m *machine) submit(t *rapid.T) {
	sub := m.f.submission(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "target"))
	sub.Price, sub.First.Window = modelPrice, modelJobs
	sub.Digest = fmt.Sprint("d", len(m.jobs))
	j := m.f.submit(sub)
	tg := m.targets[sub.Target]
	if tg == nil {
		tg = &modelTarget{}
		m.targets[sub.Target] = tg
	}
	tg.latest++
	if j.Version != tg.latest {
		t.Fatalf("version %d, want %d", j.Version, tg.latest)
	}
	mj := &modelJob{id: j.ID, target: sub.Target, version: j.Version, state: "active"}
	m.add(mj, j.Steps[0].ID, "ingest")
	if len(m.waiting()) > 0 || m.underWay() >= modelJobs {
		mj.state, mj.steps[0].state, mj.steps[0].emission = "waiting", "held", 0
	}
	m.jobs = append(m.jobs, mj)
}

// underWay counts the jobs that have entered a queue and have not ended.
func (m *machine) underWay() int {
	n := 0
	for _, j := range m.jobs {
		if j.state == "active" {
			n++
		}
	}
	return n
}

// waiting returns the jobs that have not entered, oldest first.
func (m *machine) waiting() []*modelJob {
	found := slices.DeleteFunc(slices.Clone(m.jobs), func(j *modelJob) bool { return j.state != "waiting" })
	slices.SortFunc(found, func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) })
	return found
}

// parts returns the parts in given states: those of the oldest fan-out first, in their order.
func (m *machine) parts(states ...string) []*modelStep {
	found := slices.DeleteFunc(m.steps(states...), func(s *modelStep) bool { return s.stage != "compile" })
	slices.SortStableFunc(found, func(a, b *modelStep) int { return cmp.Compare(a.job.steps[0].id, b.job.steps[0].id) })
	return found
}

// enter is the leader's look for room.
func (m *machine) enter(t *rapid.T) {
	if err := m.f.s.Enter(m.f.ctx); err != nil {
		t.Fatal(err)
	}
	m.f.pump(nil)
	for _, j := range m.waiting() {
		if m.underWay() < modelJobs {
			j.state, j.steps[0].state, j.steps[0].emission = "active", "queued", 1
		}
	}
	for _, s := range m.parts("held") {
		if len(m.parts("queued", "running")) < modelParts {
			s.state, s.emission = "queued", 1
		}
	}
}

func (m *machine) add(j *modelJob, id, stage string) {
	j.steps = append(j.steps, &modelStep{id: id, job: j, stage: stage, state: "queued", emission: 1, rounds: 1})
}

func (m *machine) request(s *modelStep) job.ClaimRequest {
	return job.ClaimRequest{Step: s.id, Tenant: "acme", Emission: s.emission, Stage: s.stage, Worker: "w", Lease: time.Hour, MaxCrashes: modelCrashes}
}

func (m *machine) claim(t *rapid.T) {
	s := m.pick(t, "held", "queued", "running", "done", "dead", "awaiting", "refused", "gone")
	r := m.request(s)
	older := rapid.Bool().Draw(t, "older")
	if older {
		r.Emission--
	}
	if rapid.Bool().Draw(t, "answer lost") {
		m.answers.lose.Store(1)
	}
	c, err := m.f.s.Claim(m.f.ctx, r)
	m.answers.lose.Store(0)
	no, refused := errors.AsType[*job.ClaimRefused](err)
	if err != nil && !refused {
		t.Fatal(err)
	}
	if refused {
		m.f.pump(no.Outgoing)
	}
	live := s.state == "running" && !s.expired
	switch may := !older && (s.state == "queued" || s.state == "running" && s.expired); {
	case !may && !refused:
		t.Fatalf("claimed a step that is %s (older %v)", s.state, older)
	case !may && live && !older && no.Do != job.Hide, !may && (!live || older) && no.Do != job.Delete:
		t.Fatalf("refusal %+v of a step that is %s (older %v)", no.Settle, s.state, older)
	case !may:
		return
	}
	if s.state == "running" {
		m.crash(s)
	}
	if s.state == "dead" {
		if !refused {
			t.Fatal("a step that crashed too often was run")
		}
		return
	}
	if refused {
		t.Fatalf("refused %+v a step that is %s", no.Settle, s.state)
	}
	s.state, s.expired, s.claim, s.job.ran = "running", false, &c, true
	if c.Attempt != s.attempts+1 {
		t.Fatalf("attempt %d, want %d", c.Attempt, s.attempts+1)
	}
}

func (m *machine) crash(s *modelStep) {
	m.lose(s)
	s.crashes++
	s.state = "queued"
	if s.crashes >= modelCrashes {
		m.die(s)
	}
}

func (m *machine) lose(s *modelStep) {
	if s.claim != nil {
		m.stale = append(m.stale, *s.claim)
	}
	s.claim, s.expired = nil, false
}

func (m *machine) die(s *modelStep) {
	s.state = "dead"
	if s.job.state == "active" {
		s.job.state, s.job.refunded = "failed", true
	}
}

func (m *machine) publish(t *rapid.T) {
	s := m.owned(t)
	p := job.Publication{Claim: *s.claim, Output: json.RawMessage(`{}`)}
	switch s.stage {
	case "ingest":
		p.FanOut, p.Next, p.Join = true, next("compile"), next("publish")
		p.Next.Window = modelParts
		p.Parts = []json.RawMessage{[]byte(`0`), []byte(`1`)}
	case "compile":
		p.Next = next("publish")
	}
	m.f.accepted(p)
	room := modelParts - len(m.parts("queued", "running"))
	if len(m.parts("held")) > 0 {
		room = 0
	}
	s.state, s.attempts, s.claim = "done", s.attempts+1, nil
	tg := m.targets[s.job.target]
	if s.stage == "ingest" && s.job.version > tg.ingested {
		tg.ingested = s.job.version
		for _, older := range m.jobs {
			if older.target == s.job.target && older.version < s.job.version && (older.state == "active" || older.state == "waiting") {
				m.stop(older, "superseded")
			}
		}
	}
	if s.stage == "publish" {
		s.job.state = "completed"
		tg.current = max(tg.current, s.job.version)
	}
	before := len(s.job.steps)
	m.learn(s.job)
	for i, part := range s.job.steps[before:] {
		if part.stage == "compile" && i >= room {
			part.state, part.emission = "held", 0
		}
	}
}

// learn takes the identifiers of new steps from the record; how many there are is the model's to say.
func (m *machine) learn(j *modelJob) {
	for _, s := range m.f.job(j.id).Steps {
		if !slices.ContainsFunc(j.steps, func(k *modelStep) bool { return k.id == s.ID }) {
			m.add(j, s.ID, s.Stage)
		}
	}
}

func (m *machine) stop(j *modelJob, state string) {
	j.state, j.refunded = state, j.refunded || state == "refused" || !j.ran
	for _, s := range j.steps {
		if s.state == "queued" || s.state == "running" || s.state == "awaiting" || s.state == "held" {
			m.lose(s)
			s.state = "gone"
		}
	}
}

func (m *machine) end(t *rapid.T, s *modelStep, err error) {
	v := outcome.Of(err)
	a := outcome.Policy{MaxAttempts: modelAttempts, Waits: []time.Duration{time.Nanosecond}}.Decide(v, s.attempts+1, 0)
	got, endErr := m.f.s.End(m.f.ctx, job.Ending{Claim: *s.claim, Verdict: v, Action: a, ReceivesAtLimit: rapid.Bool().Draw(t, "limit")})
	if endErr != nil || !got.Accepted {
		t.Fatalf("end: %+v, %v", got, endErr)
	}
	m.f.pump(got.Outgoing)
	if got.Do == job.Delete && a.Do != outcome.Die && a.Do != outcome.Refuse && a.Do != outcome.Park {
		s.emission++
	}
	if s.stage != "compile" && got.Do == job.Hide && got.After > time.Second {
		t.Fatalf("hidden for %v", got.After)
	}
	m.lose(s)
}

func (m *machine) fail(t *rapid.T) {
	s := m.owned(t)
	m.end(t, s, errBoom)
	s.state = "queued"
	if s.attempts++; s.attempts >= modelAttempts {
		m.die(s)
	}
}

func (m *machine) deferral(t *rapid.T) {
	s := m.owned(t)
	m.end(t, s, rapid.SampledFrom([]error{outcome.Defer(0, "later"), outcome.ErrDraining}).Draw(t, "why"))
	s.state = "queued"
}

func (m *machine) reject(t *rapid.T) {
	s := m.owned(t)
	m.end(t, s, outcome.Reject("bad", "Bad."))
	s.state = "refused"
	if s.job.state == "active" {
		m.stop(s.job, "refused")
	}
}

func (m *machine) expire(t *rapid.T) {
	s := m.owned(t)
	if err := m.f.s.Change(m.f.ctx, "UPDATE step SET lease_until = 1 WHERE id = $1", s.id); err != nil {
		t.Fatal(err)
	}
	s.expired = true
}

func (m *machine) await(t *rapid.T) {
	s := m.owned(t)
	s.effect = m.f.begin(*s.claim, "call").ID
	emission := s.emission
	m.end(t, s, outcome.Await(s.effect, time.Now().Add(time.Hour)))
	s.emission, s.state = emission, "awaiting"
	if s.heard && !s.seen {
		s.emission, s.state, s.seen = emission+1, "queued", true
	}
}

func (m *machine) callBack(t *rapid.T) {
	found := slices.DeleteFunc(m.steps("awaiting", "running", "queued", "done", "gone"), func(s *modelStep) bool { return s.effect == "" })
	if len(found) == 0 {
		t.Skip("no effect")
	}
	s := found[rapid.IntRange(0, len(found)-1).Draw(t, "step")]
	fresh := m.f.receive(job.Event{Provider: "p", ID: s.effect, Effect: s.effect, Body: []byte(`{}`)})
	if fresh == s.heard {
		t.Fatalf("event is new: %v, heard before: %v", fresh, s.heard)
	}
	s.heard = true
	if s.state == "awaiting" {
		s.state, s.seen = "queued", true
		s.emission++
	}
}

func (m *machine) cancel(t *rapid.T) {
	if len(m.jobs) == 0 {
		t.Skip("no job")
	}
	j := m.jobs[rapid.IntRange(0, len(m.jobs)-1).Draw(t, "job")]
	err := m.f.s.Cancel(m.f.ctx, "acme", j.id, "test", "")
	if j.state != "active" && j.state != "waiting" {
		if !errors.Is(err, job.ErrEnded) {
			t.Fatalf("cancel of a job that is %s: %v", j.state, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.stop(j, "cancelled")
}

func (m *machine) redrive(t *rapid.T) {
	if len(m.jobs) == 0 {
		t.Skip("no job")
	}
	j := m.jobs[rapid.IntRange(0, len(m.jobs)-1).Draw(t, "job")]
	dead := slices.DeleteFunc(slices.Clone(j.steps), func(s *modelStep) bool { return s.state != "dead" })
	if slices.ContainsFunc(j.steps, func(s *modelStep) bool { return s.state == "refused" }) {
		dead = nil
	}
	err := m.f.s.Redrive(m.f.ctx, j.id, "test")
	if len(dead) == 0 || j.state != "failed" || m.targets[j.target].ingested > j.version {
		if !errors.Is(err, job.ErrEnded) {
			t.Fatalf("redrive of a job that is %s with %d dead steps: %v", j.state, len(dead), err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.f.pump(nil)
	j.state = "active"
	j.recovered++
	for _, s := range dead {
		s.state, s.attempts, s.crashes = "queued", 0, 0
		s.rounds++
		s.emission++
	}
}

func (m *machine) sweep(t *rapid.T) {
	s := m.pick(t, "held", "queued", "running", "done", "dead", "awaiting", "gone", "refused")
	got, err := m.f.s.Sweep(m.f.ctx, job.DeadLetter{Step: s.id, Tenant: "acme", Emission: s.emission, MaxCrashes: modelCrashes})
	if err != nil {
		t.Fatal(err)
	}
	m.f.pump(nil)
	if (got.Do == job.Leave) != (s.state == "dead") {
		t.Fatalf("sweep of a step that is %s: %+v", s.state, got)
	}
	switch {
	case s.state == "running" && s.expired:
		if m.crash(s); s.state == "queued" {
			s.emission++
		}
	case s.state == "queued":
		s.emission++
	}
}

// staleOwner lets somebody who has lost a step try everything.
func (m *machine) staleOwner(t *rapid.T) {
	if len(m.stale) == 0 {
		t.Skip("nobody is stale")
	}
	c := m.stale[rapid.IntRange(0, len(m.stale)-1).Draw(t, "claim")]
	if got := m.f.publish(job.Publication{Claim: c, Next: next("publish")}); got.Accepted {
		t.Fatal("a stale owner published")
	}
	v := outcome.Of(errBoom)
	got, err := m.f.s.End(m.f.ctx, job.Ending{Claim: c, Verdict: v, Action: outcome.Policy{}.Decide(v, 3, 0)})
	if err != nil || got.Accepted {
		t.Fatalf("a stale owner ended the step: %+v, %v", got, err)
	}
	if errs, err := m.f.s.Renew(m.f.ctx, []job.Renewal{{Step: c.Step, Token: c.Token, Lease: time.Hour}}); err != nil || errs[0] == nil {
		t.Fatalf("a stale owner renewed: %v, %v", errs, err)
	}
}

func (m *machine) renew(t *rapid.T) {
	var rs []job.Renewal
	running := m.steps("running")
	for _, s := range running {
		rs = append(rs, job.Renewal{Step: s.id, Token: s.claim.Token, Lease: time.Hour})
	}
	errs, err := m.f.s.Renew(m.f.ctx, rs)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range running {
		if (errs[i] == nil) == s.expired {
			t.Fatalf("renewed: %v, expired: %v", errs[i] == nil, s.expired)
		}
	}
}

// agree compares the record with the model.
func (m *machine) agree(t *rapid.T) {
	seen := map[string]job.State{
		"held": job.Waiting, "queued": job.Queued, "running": job.Running, "awaiting": job.Awaiting, "done": job.Completed, "dead": job.Failed, "refused": job.Rejected,
	}
	spent := int64(0)
	for _, j := range m.jobs {
		got := m.f.job(j.id)
		if j.state == "waiting" && got.State != job.Waiting {
			t.Fatalf("job is %s, want %s", got.State, job.Waiting)
		}
		if j.state != "active" && j.state != "waiting" && string(got.State) != j.state || j.state == "active" && got.State.Ended() {
			t.Fatalf("job is %s, want %s", got.State, j.state)
		}
		if len(got.Steps) != len(j.steps) || len(j.steps) != m.expected(j) || got.Recovered != j.recovered {
			t.Fatalf("job has %d steps and was recovered %d times, want %d and %d", len(got.Steps), got.Recovered, m.expected(j), j.recovered)
		}
		for _, s := range got.Steps {
			k := j.steps[slices.IndexFunc(j.steps, func(k *modelStep) bool { return k.id == s.ID })]
			if want, ok := seen[k.state]; ok && s.State != want || s.Attempts != k.attempts || s.Crashes != k.crashes {
				t.Fatalf("step %s is %+v, want %+v", s.Stage, s, k)
			}
		}
		if !j.refunded {
			spent += modelPrice
		}
		if tg := m.targets[j.target]; got.Current != (tg.current == j.version) {
			t.Fatalf("version %d is current: %v, want version %d", j.version, got.Current, tg.current)
		}
	}
	if len(m.jobs) > 0 && m.f.balance() != -spent {
		t.Fatalf("balance %d, want %d", m.f.balance(), -spent)
	}
	for _, fault := range faults(m.f.ctx, m.f.s, m.f.queues.all()) {
		t.Fatal(fault)
	}
}

// expected is the number of steps that a job must have.
func (m *machine) expected(j *modelJob) int {
	done := map[string]int{}
	for _, s := range j.steps {
		if s.state == "done" {
			done[s.stage]++
		}
	}
	n := 1 + 2*done["ingest"]
	if done["compile"] == 2 {
		n++
	}
	return n
}
