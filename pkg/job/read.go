package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

const (
	defaultPage = 50
	maxPage     = 500
	lastCursor  = "z" // sorts after every identifier, whatever the collation of the database: a sign may sort before letters
)

// Job returns one job of a tenant with the history of its steps, or ErrNotFound: somebody else's job is not found either.
func (s *Store) Job(ctx context.Context, tenant, id string) (Job, error) {
	var j *Job
	err := s.db.View(ctx, "job", func(tx *sqldb.Tx) error {
		jobs, err := readJobs(ctx, tx, "job", tenant, id)
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			return sql.ErrNoRows
		}
		j = jobs[0]
		return readHistories(ctx, tx, map[string]*Job{j.ID: j})
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Job{}, ErrNotFound
	case err != nil:
		return Job{}, fmt.Errorf("read job: %w", err)
	}
	return *j, nil
}

// Jobs lists a tenant's jobs, newest first, without histories, and the cursor of the next page, empty after the last.
func (s *Store) Jobs(ctx context.Context, f Filter) ([]Job, string, error) {
	if f.Limit == 0 {
		f.Limit = defaultPage
	}
	if f.Limit < 1 || f.Limit > maxPage {
		return nil, "", fmt.Errorf("list jobs: Limit is %d, must be 1 to %d", f.Limit, maxPage)
	}
	if f.Cursor == "" {
		f.Cursor = lastCursor
	}
	name, args := f.query()
	var page []Job
	err := s.db.View(ctx, "jobs", func(tx *sqldb.Tx) error {
		jobs, err := readJobs(ctx, tx, name, args...)
		page = nil
		for _, j := range jobs {
			page = append(page, *j)
		}
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list jobs: %w", err)
	}
	if len(page) <= f.Limit {
		return page, "", nil
	}
	return page[:f.Limit], page[f.Limit-1].ID, nil
}

// query asks for one job more than the page, to know whether there is another page. Identifiers begin with their time, so
// Since is a bound on them.
func (f Filter) query() (string, []any) {
	since := ""
	if f.Since.UnixMilli() > 0 { // nothing is older
		since = envelope.NewID(f.Since)[:timeChars]
	}
	args := []any{f.Tenant, f.Cursor, f.Limit + 1, since}
	switch {
	case f.Target != "":
		return "jobs_of_target", append(args, f.Stage, f.State.stored(), f.Target)
	case f.Stage != "":
		return "jobs_at_stage", append(args, f.Stage, f.State.stored())
	case f.State != "":
		return "jobs_in_state", append(args, f.State.stored())
	}
	return "jobs", args
}

// timeChars of an identifier are its time.
const timeChars = 10

func (s State) stored() string {
	switch {
	case s == Waiting:
		return jobWaiting
	case s == "":
		return "" // any
	case s.Ended():
		return string(s)
	}
	return jobActive
}

// Seq returns the change number of a job, cheap to ask for: when it has grown, something about the job has changed.
func (s *Store) Seq(ctx context.Context, tenant, id string) (int64, error) {
	var seq int64
	err := s.db.View(ctx, "seq", func(tx *sqldb.Tx) error {
		return tx.One(ctx, q("seq"), []any{tenant, id}, &seq)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, ErrNotFound
	case err != nil:
		return 0, fmt.Errorf("read change number: %w", err)
	}
	return seq, nil
}

// readJobs reads jobs with their steps and derives the states that a person sees.
func readJobs(ctx context.Context, tx *sqldb.Tx, name string, args ...any) ([]*Job, error) {
	var jobs []*Job
	byID := map[string]*Job{}
	err := tx.Query(ctx, q(name), func(scan func(...any) error) error {
		j, err := scanJob(scan)
		if err == nil {
			jobs, byID[j.ID] = append(jobs, j), j
		}
		return err
	}, args...)
	if err != nil || len(jobs) == 0 {
		return jobs, err
	}
	paused, err := pausedStages(ctx, tx)
	if err != nil {
		return nil, err
	}
	err = tx.Query(ctx, q("steps"), func(scan func(...any) error) error {
		return scanStep(scan, byID, paused)
	}, sqldb.Rows(idRows(sortedKeys(byID))))
	for _, j := range jobs {
		j.derive()
	}
	return jobs, err
}

func scanJob(scan func(...any) error) (*Job, error) {
	j := &Job{Steps: []Step{}}
	var state, code, sentence, gaps, result, current string
	var created, ended int64
	err := scan(&j.ID, &j.Tenant, &j.Target, &j.Version, &state, &code, &sentence, &gaps, &result, &j.Recovered, &j.Seq, &created, &ended, &current)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(gaps), &j.Gaps); err != nil {
		return nil, fmt.Errorf("decode gaps: %w", err)
	}
	if result != "" {
		if err := json.Unmarshal([]byte(result), &j.Result); err != nil {
			return nil, fmt.Errorf("decode result: %w", err)
		}
	}
	j.State, j.Reason, j.Current = State(state), reason(code, sentence), current == j.ID
	j.CreatedAt, j.EndedAt = timeOf(created), optional(ended)
	return j, nil
}

func scanStep(scan func(...any) error, jobs map[string]*Job, paused map[string]bool) error {
	var s Step
	var job, state, code, sentence, progress string
	var part, notBefore, rev, created, ended, now int64
	err := scan(&s.ID, &job, &s.Stage, &part, &state, &code, &sentence, &notBefore, &s.Attempts, &s.Crashes, &s.Worker, &progress, &rev, &created, &ended, &now)
	if err != nil {
		return err
	}
	if part >= 0 {
		n := int(part)
		s.Part = &n
	}
	s.State, s.Reason = stepState(state, s.Stage, notBefore > now, paused), reason(code, sentence)
	if s.State == Retrying {
		s.RetryAt = optional(notBefore)
	}
	if s.State == Running && progress != "" {
		if err := json.Unmarshal([]byte(progress), &s.Progress); err != nil {
			return fmt.Errorf("decode progress: %w", err)
		}
	}
	s.CreatedAt, s.EndedAt = timeOf(created), optional(ended)
	j := jobs[job]
	j.Steps, j.Seq = append(j.Steps, s), j.Seq+rev
	return nil
}

// stepState says in a person's words what is stored.
func stepState(stored, stage string, waits bool, paused map[string]bool) State {
	switch stored {
	case stepHeld:
		return Waiting
	case stepQueued:
		switch {
		case paused[stage] || paused["all"]:
			return Paused
		case waits:
			return Retrying
		}
		return Queued
	case stepAwaiting:
		return Awaiting
	case stepDone:
		return Completed
	case stepDead, stepDiscarded:
		return Failed
	}
	return State(stored) // running, refused, cancelled, superseded
}

// derive gives an unfinished job the liveliest state of its steps.
func (j *Job) derive() {
	switch j.State {
	case jobWaiting:
		j.State = Waiting
	case jobActive:
		j.State = Queued
		for _, want := range []State{Running, Retrying, Awaiting, Paused} {
			i := slices.IndexFunc(j.Steps, func(s Step) bool { return s.State == want })
			if i >= 0 {
				j.State, j.RetryAt = want, j.Steps[i].RetryAt
				return
			}
		}
	default: // an end is what it is
	}
}

func readHistories(ctx context.Context, tx *sqldb.Tx, jobs map[string]*Job) error {
	return tx.Query(ctx, q("attempts"), func(scan func(...any) error) error {
		var a Attempt
		var job, step, tools string
		var counted, due, claimed, closed, started, ended, provider int64
		err := scan(&a.ID, &job, &step, &a.Worker, &a.Outcome, &a.Reason, &counted, &due, &claimed, &closed, &started, &ended, &provider, &tools,
			&a.Usage.Requests, &a.Usage.InputTokens, &a.Usage.OutputTokens)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(tools), &a.Tools); err != nil {
			return fmt.Errorf("decode tools: %w", err)
		}
		a.Counted, a.ClaimedAt, a.ClosedAt = counted == 1, timeOf(claimed), timeOf(closed)
		a.QueueWaitMs, a.ExecutionMs, a.ProviderWaitMs = span(due, claimed), span(started, ended), provider/1000
		a.PublicationMs = span(ended, closed)
		j := jobs[job]
		i := slices.IndexFunc(j.Steps, func(s Step) bool { return s.ID == step })
		if i < 0 {
			return fmt.Errorf("execution %s belongs to no step of its job", a.ID)
		}
		j.Steps[i].History = append(j.Steps[i].History, a)
		return nil
	}, sqldb.Rows(idRows(sortedKeys(jobs))))
}

// span is the milliseconds between two moments that are both known.
func span(from, to int64) int64 {
	if from == 0 || to == 0 {
		return 0
	}
	return max(0, to-from) / 1000
}

func pausedStages(ctx context.Context, tx *sqldb.Tx) (map[string]bool, error) {
	paused := map[string]bool{}
	err := tx.Query(ctx, q("pauses"), func(scan func(...any) error) error {
		var p PauseEntry
		var at, until int64
		err := scan(&p.Stage, &p.Reason, &p.Who, &at, &until)
		paused[p.Stage] = true
		return err
	})
	return paused, err
}

func reason(code, sentence string) *Reason {
	if code == "" {
		return nil
	}
	return &Reason{Code: code, Sentence: sentence}
}

func optional(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	t := timeOf(us)
	return &t
}
