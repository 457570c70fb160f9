package job

import (
	"encoding/json"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// States of a job and of a step as they are stored. What a person sees is derived from them.
const (
	jobWaiting    = "waiting"
	jobActive     = "active"
	jobCompleted  = "completed"
	jobWithGaps   = "completed_with_gaps"
	jobRefused    = "refused"
	jobFailed     = "failed"
	jobCancelled  = "cancelled"
	jobSuperseded = "superseded"

	stepHeld       = "held" // a first step or a part that waits for room: no message stands for it yet
	stepQueued     = "queued"
	stepRunning    = "running"
	stepAwaiting   = "awaiting"
	stepDone       = "done"
	stepRefused    = "refused"
	stepDead       = "dead"
	stepDiscarded  = "discarded" // was dead; a person has decided that nothing more comes of it
	stepCancelled  = "cancelled"
	stepSuperseded = "superseded"
)

// Phases of a step: what the partial indexes look at.
const (
	phaseQuiet = iota // no message stands for it
	phaseOpen         // queued or running: a message must stand for it
	phaseDead         // waits for a person
	phaseHeld         // waits for room
)

func phaseOf(state string) int64 {
	switch state {
	case stepQueued, stepRunning:
		return phaseOpen
	case stepDead:
		return phaseDead
	case stepHeld:
		return phaseHeld
	}
	return phaseQuiet
}

// stepRow is a step as it is read under its lock and written back. Fields without a tag never change.
type stepRow struct {
	ID        string `json:"id"`
	Job       string `json:"job"`
	Tenant    string `json:"tenant"`
	Stage     string `json:"stage"`
	Part      int64  `json:"part"`
	Parent    string `json:"parent"`
	PartsLeft int64  `json:"parts_left"`
	IsFirst   int64  `json:"is_first"`
	IsJoin    int64  `json:"is_join"`
	Queue     string `json:"queue"`
	DLQ       string `json:"dlq"`
	FIFO      int64  `json:"fifo"`
	Window    int64  `json:"window_size"` // written when the step is inserted, not read back
	State     string `json:"state"`
	Phase     int64  `json:"phase"`
	Code      string `json:"code"`
	Sentence  string `json:"sentence"`
	Emission  int64  `json:"emission"`
	EmittedAt int64  `json:"emitted_at"`
	NotBefore int64  `json:"not_before"`
	Token     string `json:"token"`
	LeaseEnd  int64  `json:"lease_until"`
	Attempt   string `json:"attempt"`
	Attempts  int64  `json:"attempts"`
	Crashes   int64  `json:"crashes"`
	Rounds    int64  `json:"rounds"`
	Worker    string `json:"worker"`
	Input     string `json:"-"`
	Event     string `json:"event"`
	Trace     string `json:"trace"`
	EndedAt   int64  `json:"ended_at"`

	Output *string `json:"output,omitempty"` // set only by the publication that makes it

	job    *jobRow
	target *targetRow
	dirty  bool
	asRead *stepRow // before the unit changed it
}

// byChange sorts steps by the statement that writes what has changed in them: any column, what a claim changes, or what the
// end of a step that is done does.
func byChange(steps []*stepRow) (saved, claimed, done []*stepRow) {
	for _, s := range steps {
		switch {
		case s.State == stepRunning && s.differsOnly(func(to *stepRow) {
			to.Token, to.LeaseEnd, to.Attempt, to.Worker = s.Token, s.LeaseEnd, s.Attempt, s.Worker
		}):
			claimed = append(claimed, s)
		case s.State == stepDone && s.Output != nil && s.differsOnly(func(to *stepRow) {
			to.Token, to.LeaseEnd, to.Attempts, to.Output, to.EndedAt = "", 0, s.Attempts, s.Output, s.EndedAt
		}):
			done = append(done, s)
		default:
			saved = append(saved, s)
		}
	}
	return saved, claimed, done
}

// differsOnly reports whether the step is what was read, in its new state and with some columns copied over.
func (s *stepRow) differsOnly(copied func(to *stepRow)) bool {
	was := *s.asRead
	was.State, was.Phase, was.dirty, was.asRead = s.State, s.Phase, s.dirty, s.asRead
	copied(&was)
	return was == *s
}

func (s *stepRow) ended() bool {
	switch s.State {
	case stepQueued, stepRunning, stepAwaiting, stepHeld:
		return false
	}
	return true
}

// live reports whether an owner holds the step at the moment now. Running without a lease is not living.
func (s *stepRow) live(now int64) bool { return s.State == stepRunning && s.LeaseEnd > now }

type jobRow struct {
	ID        string  `json:"id"`
	Tenant    string  `json:"-"`
	Target    string  `json:"-"`
	Version   int64   `json:"-"`
	Price     int64   `json:"-"`
	State     string  `json:"state"`
	Code      string  `json:"code"`
	Sentence  string  `json:"sentence"`
	GapsJSON  string  `json:"gaps"`
	Recovered int64   `json:"recovered"`
	EndedAt   int64   `json:"ended_at"`
	Result    *string `json:"result,omitempty"` // set only by the last publication

	waited bool // it ended before it had entered a queue
	dirty  bool
}

func (j *jobRow) gaps() []outcome.Gap {
	if j.GapsJSON == "[]" {
		return nil
	}
	var gaps []outcome.Gap
	_ = json.Unmarshal([]byte(j.GapsJSON), &gaps) // written by addGaps only
	return gaps
}

func (j *jobRow) addGaps(more []outcome.Gap) {
	if len(more) == 0 {
		return
	}
	raw, _ := json.Marshal(append(j.gaps(), more...)) // strings always encode
	j.GapsJSON, j.dirty = string(raw), true
}

type targetRow struct {
	ID       string `json:"id"`
	Name     string `json:"-"`
	Latest   int64  `json:"latest"`
	Ingested int64  `json:"ingested"`
	Current  int64  `json:"current_version"`
	CurJob   string `json:"current_job"`

	dirty bool
}

// newStep is a step that is inserted: only then its input is written.
type newStep struct {
	*stepRow
	Input string `json:"input"`
}

// attemptRow is a new execution; closedRow is the end of one.
type attemptRow struct {
	ID        string `json:"id"`
	Step      string `json:"step"`
	Job       string `json:"job"`
	Emission  int64  `json:"emission"`
	Worker    string `json:"worker"`
	DueAt     int64  `json:"due_at"`
	ClaimedAt int64  `json:"claimed_at"`
	LeaseUs   int64  `json:"lease_us"`
}

type closedRow struct {
	ID           string `json:"id"`
	Outcome      string `json:"outcome"`
	Reason       string `json:"reason"`
	Counted      int64  `json:"counted"`
	Garbage      int64  `json:"garbage"`
	ClosedAt     int64  `json:"closed_at"`
	ReceivedAt   int64  `json:"received_at"`
	StartedAt    int64  `json:"started_at"`
	EndedAt      int64  `json:"ended_at"`
	ProviderWait int64  `json:"provider_wait"`
	Requests     int64  `json:"requests"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Tools        string `json:"tools"`

	step             *stepRow // whose execution it was
	dueAt, claimedAt int64
}

type outboxRow struct {
	ID         string `json:"id"`
	Token      string `json:"token"`
	ReadyAt    int64  `json:"ready_at"`
	DueAt      int64  `json:"due_at"`
	NotBefore  int64  `json:"not_before"`
	Queue      string `json:"queue"`
	FIFO       int64  `json:"fifo"`
	Group      string `json:"grp"`
	Dedup      string `json:"dedup"`
	Body       string `json:"body"`
	Tenant     string `json:"tenant"`
	Attributes string `json:"attributes"`
	Step       string `json:"step"`
	CreatedAt  int64  `json:"created_at"`

	dropped bool // the unit has changed its mind
}

type idRow struct {
	ID string `json:"id"`
}

func idRows(ids []string) []idRow {
	rows := make([]idRow, len(ids))
	for i, id := range ids {
		rows[i].ID = id
	}
	return rows
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
