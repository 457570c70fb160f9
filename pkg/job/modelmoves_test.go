package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// What may happen to the record, one action each: it is done to the record and noted in the model.

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
	if s.state == "awaiting" && fresh {
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
