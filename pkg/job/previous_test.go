package job_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// oldRow is a row of any table as the previous release reads and writes it.
type oldRow struct {
	ID        string  `json:"id"`
	Step      string  `json:"step"`
	Job       string  `json:"job"`
	Tenant    string  `json:"tenant"`
	Stage     string  `json:"stage"`
	Part      int64   `json:"part"`
	Parent    string  `json:"parent"`
	PartsLeft int64   `json:"parts_left"`
	IsFirst   int64   `json:"is_first"`
	IsJoin    int64   `json:"is_join"`
	Queue     string  `json:"queue"`
	DLQ       string  `json:"dlq"`
	FIFO      int64   `json:"fifo"`
	Window    int64   `json:"window_size"`
	State     string  `json:"state"`
	Phase     int64   `json:"phase"`
	Code      string  `json:"code"`
	Sentence  string  `json:"sentence"`
	Emission  int64   `json:"emission"`
	EmittedAt int64   `json:"emitted_at"`
	NotBefore int64   `json:"not_before"`
	Token     string  `json:"token"`
	LeaseEnd  int64   `json:"lease_until"`
	LeaseUs   int64   `json:"lease_us"`
	Attempt   string  `json:"attempt"`
	Attempts  int64   `json:"attempts"`
	Crashes   int64   `json:"crashes"`
	Rounds    int64   `json:"rounds"`
	Worker    string  `json:"worker"`
	Input     string  `json:"input"`
	Event     string  `json:"event"`
	Trace     string  `json:"trace"`
	Output    *string `json:"output"`
	EndedAt   int64   `json:"ended_at"`

	Gaps      string  `json:"gaps"`
	Result    *string `json:"result"`
	Recovered int64   `json:"recovered"`

	Latest     int64  `json:"latest"`
	Ingested   int64  `json:"ingested"`
	Current    int64  `json:"current_version"`
	CurrentJob string `json:"current_job"`

	Outcome      string `json:"outcome"`
	Reason       string `json:"reason"`
	Counted      int64  `json:"counted"`
	Garbage      int64  `json:"garbage"`
	ClosedAt     int64  `json:"closed_at"`
	ReceivedAt   int64  `json:"received_at"`
	StartedAt    int64  `json:"started_at"`
	ProviderWait int64  `json:"provider_wait"`
	Requests     int64  `json:"requests"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Tools        string `json:"tools"`

	ReadyAt    int64  `json:"ready_at"`
	DueAt      int64  `json:"due_at"`
	ClaimedAt  int64  `json:"claimed_at"`
	Group      string `json:"grp"`
	Dedup      string `json:"dedup"`
	Body       string `json:"body"`
	Attributes string `json:"attributes"`
	CreatedAt  int64  `json:"created_at"`
}

// oldWorker asks what a worker of the previous release asks. The first error stays.
type oldWorker struct {
	t    *testing.T
	db   *sqldb.DB
	ask  map[string]string
	used map[string]bool
	err  error
}

func newOldWorker(t *testing.T, url string) *oldWorker {
	t.Helper()
	raw, err := os.ReadFile("testdata/previous.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(t.Context(), url, sqldb.Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &oldWorker{t: t, db: db, ask: job.SplitStatements(string(raw)), used: map[string]bool{}}
}

// do runs a statement that must change so many rows.
func (w *oldWorker) do(name string, want int64, args ...any) {
	w.run(name, func(tx *sqldb.Tx) error {
		n, err := tx.Exec(w.t.Context(), w.ask[name], args...)
		if err == nil && n != want {
			err = fmt.Errorf("%d rows changed, want %d", n, want)
		}
		return err
	})
}

// get runs a statement that must return one row.
func (w *oldWorker) get(name string, dest []any, args ...any) {
	w.run(name, func(tx *sqldb.Tx) error { return tx.One(w.t.Context(), w.ask[name], args, dest...) })
}

// list runs a statement and returns how many rows came.
func (w *oldWorker) list(name string, columns int, args ...any) int {
	n := 0
	w.run(name, func(tx *sqldb.Tx) error {
		n = 0
		return tx.Query(w.t.Context(), w.ask[name], func(scan func(...any) error) error {
			dest := make([]any, columns)
			for i := range dest {
				dest[i] = new(any)
			}
			n++
			return scan(dest...)
		}, args...)
	})
	return n
}

func (w *oldWorker) run(name string, fn func(*sqldb.Tx) error) {
	w.used[name] = true
	if w.err != nil {
		return
	}
	if err := w.db.Update(w.t.Context(), name, fn); err != nil {
		w.err = fmt.Errorf("%s: %w", name, err)
	}
}

func one(r *oldRow) sqldb.Records { return sqldb.Rows([]*oldRow{r}) }

// lock reads a step as a claim or a publication does, and its job and target.
func (w *oldWorker) lock(name, id string) (step, jb, target *oldRow, now int64) {
	s, j, t := &oldRow{}, &oldRow{}, &oldRow{}
	var version, price int64
	w.get(name, []any{
		&s.ID, &s.Job, &s.Tenant, &s.Stage, &s.Part, &s.Parent, &s.PartsLeft, &s.IsFirst, &s.IsJoin, &s.Queue, &s.DLQ, &s.FIFO,
		&s.State, &s.Code, &s.Sentence, &s.Emission, &s.EmittedAt, &s.NotBefore, &s.Token, &s.LeaseEnd, &s.Attempt,
		&s.Attempts, &s.Crashes, &s.Rounds, &s.Worker, &s.Input, &s.Event, &s.Trace, &s.EndedAt,
		&t.ID, &version, &j.State, &j.Code, &j.Sentence, &j.Gaps, &price, &j.Recovered, &j.EndedAt,
		new(string), &t.Latest, &t.Ingested, &t.Current, &t.CurrentJob, &now,
	}, one(&oldRow{ID: id}))
	j.ID = s.Job
	return s, j, t, now
}

func (w *oldWorker) claim(id, execution string) *oldRow {
	s, _, _, now := w.lock("lock_steps", id)
	s.State, s.Phase, s.Token, s.Attempt, s.Worker, s.LeaseEnd = "running", 1, "token-"+execution, execution, "old", now+time.Minute.Microseconds()
	w.do("save_steps", 1, one(s))
	w.do("insert_attempts", 1, one(&oldRow{
		ID: execution, Step: s.ID, Job: s.Job, Emission: s.Emission, Worker: "old", DueAt: s.EmittedAt, ClaimedAt: now, LeaseUs: time.Minute.Microseconds(),
	}))
	return s
}

func (w *oldWorker) close(s *oldRow, how string, counted, now int64) {
	w.do("close_attempts", 1, one(&oldRow{ID: s.Attempt, Outcome: how, Counted: counted, Garbage: 1 - counted, ClosedAt: now, Tools: "[]"}))
}

// message adds a message for the step to the outbox, leased to its committer.
func (w *oldWorker) message(s *oldRow, now int64) *oldRow {
	m := &oldRow{
		ID: fmt.Sprint("m-", s.ID, s.Emission), Token: "mine", ReadyAt: now + time.Minute.Microseconds(), DueAt: now, Queue: s.Queue, FIFO: s.FIFO, Group: "g",
		Dedup: fmt.Sprint(s.ID, "/", s.Emission), Body: fmt.Sprintf(`{"v":1,"step":%q,"emission":%d,"tenant":%q}`, s.ID, s.Emission, s.Tenant),
		Tenant: s.Tenant, Attributes: "{}", Step: s.ID, CreatedAt: now,
	}
	w.do("insert_outbox", 1, one(m))
	return m
}

// first works on an ingest: it makes an effect, beats, and publishes the step that follows.
func (w *oldWorker) first(id string) {
	s := w.claim(id, "x1")
	if n := w.list("renew", 1, one(&oldRow{ID: s.ID, Token: s.Token, LeaseUs: time.Minute.Microseconds()})); n != 1 && w.err == nil {
		w.err = errors.New("renew: not renewed")
	}
	w.list("states", 2, one(s))
	w.do("progress", 1, s.ID, s.Token, "{}")
	w.do("report_worker", 1, "old", "ingest", "{}")
	w.list("pauses", 5)
	w.get("clock", []any{new(int64)})
	w.do("begin_effect", 1, "e1", s.ID, "pay")
	w.list("read_effect", 3, s.ID, "pay")
	w.do("open_await", 1, "e1", s.ID)
	w.do("end_effect", 1, "e1", s.ID, "cGFpZA==")

	s, _, target, now := w.lock("lock_all", s.ID)
	target.Ingested = 1
	w.do("save_targets", 1, one(target))
	w.list("older_jobs", 1, target.ID, 1)
	w.list("steps_of_jobs", 1, one(&oldRow{ID: s.Job}))
	output := `{"of":"old"}`
	s.State, s.Phase, s.Token, s.LeaseEnd, s.Attempts, s.Output, s.EndedAt = "done", 0, "", 0, 1, &output, now
	w.do("save_steps", 1, one(s))
	w.close(s, "done", 1, now)
	next := &oldRow{
		ID: s.ID + "n", Job: s.Job, Tenant: s.Tenant, Stage: "publish", Part: -1, IsJoin: 1, Queue: "q-publish", DLQ: "dlq-publish", FIFO: 1,
		State: "queued", Phase: 1, Emission: 1, EmittedAt: now, Input: output,
	}
	w.do("insert_steps", 1, one(next))
	m := w.message(next, now)
	w.do("send_failed", 1, one(m), 1, 1)
	w.list("part_outputs", 2, s.ID)
	w.get("output_of_step", []any{new(string)}, s.ID)
}

// second fails once, and then ends the job.
func (w *oldWorker) second(id string) {
	s := w.claim(id, "x2")
	s, _, _, now := w.lock("lock_all", s.ID)
	w.close(s, "retry", 1, now)
	s.State, s.Token, s.LeaseEnd, s.Attempts, s.Emission, s.EmittedAt, s.NotBefore, s.Phase = "queued", "", 0, 1, s.Emission+1, now, now, 1
	w.do("save_steps", 1, one(s))
	m := w.message(s, now)
	w.do("delete_sent", 1, one(m))

	s = w.claim(id, "x3")
	w.list("lock_accounts_of_steps", 1, one(s))
	s, j, target, now := w.lock("lock_all", s.ID)
	result := `{"dir":"d"}`
	s.State, s.Phase, s.Token, s.LeaseEnd, s.Attempts, s.EndedAt = "done", 0, "", 0, 2, now
	j.State, j.EndedAt, j.Result = "completed", now, &result
	target.Current, target.CurrentJob = 1, j.ID
	w.do("save_targets", 1, one(target))
	w.do("save_jobs", 1, one(j))
	w.do("save_steps", 1, one(s))
	w.close(s, "done", 1, now)
	w.list("job_has_attempts", 1, j.ID)
	w.do("insert_webhooks", 0, one(&oldRow{ID: "h1", Job: j.ID, Body: "{}"}))
	w.do("insert_entry", 1, "n1", s.Tenant, j.ID, "recovered/0", j.ID+"/recovered/0", 0, "")
	w.do("job_ended", 1, s.Tenant, 0, 0)
}

// parked lets a step await what it has begun.
func (w *oldWorker) parked(id string) {
	s := w.claim(id, "x4")
	w.do("begin_effect", 1, "e2", s.ID, "ask")
	w.do("open_await", 1, "e2", s.ID)
	w.list("lock_await", 2, "e2")
	s, _, _, now := w.lock("lock_all", s.ID)
	w.close(s, "await", 0, now)
	w.do("park_await", 1, "e2", s.ID, now+time.Hour.Microseconds())
	s.State, s.Phase, s.Token, s.LeaseEnd = "awaiting", 0, "", 0
	w.do("save_steps", 1, one(s))
	w.list("unseen_events", 1, "e2")
}

// journey is a job that a worker of the previous release works on beside this release's server, and one that it parks.
func journey(f *fixture, w *oldWorker) error {
	j := f.submit(f.submission("talk"))
	w.first(request(f.message("ingest"), "ingest").Step)
	if w.err != nil {
		return w.err
	}
	f.age(time.Hour)
	f.relay()
	w.second(request(f.message("publish"), "publish").Step)
	k := f.submit(f.submission("parked"))
	w.parked(request(f.message("ingest"), "ingest").Step)
	w.do("settle_await", 1, "e1")
	if w.err != nil {
		return w.err
	}
	f.receive(job.Event{Provider: "p", ID: "v1", Effect: "e2", Body: []byte(`{"n":1}`)})
	f.pump(nil)
	c := f.claim("ingest")
	if string(c.Event) != `{"n":1}` {
		return fmt.Errorf("event %s", c.Event)
	}
	f.accepted(job.Publication{Claim: c})
	f.state(k.ID, job.Completed)
	if end := f.state(j.ID, job.Completed); !end.Current || len(end.Steps) != 2 || end.Steps[1].Attempts != 2 || len(end.Steps[1].History) != 2 {
		return fmt.Errorf("job %+v", end)
	}
	return nil
}

func TestAWorkerOfThePreviousReleaseWorksOnThisSchema(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, _ *host, url string) {
		w := newOldWorker(t, url)
		if err := journey(f, w); err != nil {
			t.Fatal(err)
		}
		for name := range w.ask {
			if !w.used[name] {
				t.Errorf("%s was not tried", name)
			}
		}
		f.sound()
	})
}

func TestAMigrationThatBreaksThePreviousReleaseIsNoticed(t *testing.T) {
	for _, change := range []string{
		"ALTER TABLE step RENAME COLUMN token TO fence",
		"ALTER TABLE attempt DROP COLUMN lease_us",
		"ALTER TABLE outbox RENAME TO mail",
		"CREATE UNIQUE INDEX only_one_a_worker ON attempt (worker)",
	} {
		t.Run(change, func(t *testing.T) {
			onBothWithHost(t, func(t *testing.T, f *fixture, _ *host, url string) {
				f.submit(f.submission("talk"))
				id := request(f.message("ingest"), "ingest").Step
				if err := f.s.Change(f.ctx, change); err != nil {
					t.Fatal(err)
				}
				w := newOldWorker(t, url)
				if w.first(id); w.err == nil {
					w.second(id)
				}
				if w.err == nil {
					t.Error("nothing fails")
				}
			})
		})
	}
}
