package job_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/job"
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

func (m *machine) add(j *modelJob, id, stage string) {
	j.steps = append(j.steps, &modelStep{id: id, job: j, stage: stage, state: "queued", emission: 1, rounds: 1})
}

func (m *machine) request(s *modelStep) job.ClaimRequest {
	return job.ClaimRequest{Step: s.id, Tenant: "acme", Emission: s.emission, Stage: s.stage, Worker: "w", Lease: time.Hour, MaxCrashes: modelCrashes}
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
