package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// senderLease is how long the committer of an outbox row has it to itself.
const senderLease = 10 * time.Second

// maxDelay is the longest delay that a queue takes for one message (SQS: 15 minutes).
const maxDelay = 15 * time.Minute

func (u *unit) set(s *stepRow, state string) {
	s.State, s.Phase, s.dirty = state, phaseOf(state), true
	if state != stepRunning {
		s.Token, s.LeaseEnd = "", 0
	}
	if s.ended() {
		s.EndedAt = u.now
		u.over = append(u.over, s)
	}
}

// emit gives the step a new message, due now or at s.NotBefore; whatever older message comes is refused.
func (u *unit) emit(s *stepRow) {
	s.Emission++
	s.EmittedAt, s.dirty = u.now, true
	u.send(s, s.Queue, s.FIFO == 1, max(u.now, s.NotBefore), strconv.FormatInt(s.Emission, 10), nil)
}

// send adds a message for a step to the outbox. Rows that are due at once are born leased to the committer.
// On a standard queue the queue itself keeps the last part of a wait, on a FIFO queue the outbox keeps it all.
func (u *unit) send(s *stepRow, queue string, fifo bool, dueAt int64, suffix string, attrs map[string]string) {
	body, err := envelope.Encode(envelope.Body{Step: s.ID, Emission: s.Emission, Tenant: s.Tenant})
	if err != nil {
		panic(fmt.Sprintf("job: %v", err)) // step and tenant were valid when they were stored
	}
	row := outboxRow{
		ID: u.newID(), Token: u.outboxToken(), NotBefore: dueAt, DueAt: dueAt, Queue: queue, FIFO: flag(fifo),
		Group: s.Tenant, Dedup: s.ID + "/" + suffix, Body: body, Tenant: s.Tenant, Step: s.ID, CreatedAt: u.now,
	}
	if fifo {
		row.Group = s.job.Target
	} else {
		row.DueAt = max(u.now, dueAt-maxDelay.Microseconds())
	}
	row.ReadyAt = row.DueAt
	if row.DueAt <= u.now {
		row.ReadyAt = u.now + senderLease.Microseconds()
	}
	if s.Trace != "" {
		attrs = with(attrs, "traceparent", s.Trace)
	}
	row.Attributes = sqldb.Text(attrs)
	u.outbox = append(u.outbox, row)
}

func with(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// addStep makes the step that follows: queued, with its first message on the way, unless its shape says that it is held.
func (u *unit) addStep(j *jobRow, r Route, input json.RawMessage, trace string, shape stepRow) {
	s := &shape
	s.ID, s.Job, s.Tenant, s.Stage, s.job = u.newID(), j.ID, j.Tenant, r.Stage, j
	s.Queue, s.DLQ, s.FIFO, s.Window, s.IsJoin, s.Trace = r.Queue, r.DLQ, flag(r.FIFO), r.Window, flag(r.Join), trace
	s.EmittedAt = u.now
	if s.State != stepHeld {
		s.State = stepQueued
		u.emit(s)
	}
	s.Phase = phaseOf(s.State)
	u.newSteps = append(u.newSteps, newStep{stepRow: s, Input: string(input)})
}

// plain is the shape of a step that is not a part.
func plain() stepRow { return stepRow{Part: -1} }

// closeAttempt ends the step's open execution.
func (u *unit) closeAttempt(s *stepRow, end, reason string, counted bool, t Timings) {
	if counted {
		s.Attempts++
		s.dirty = true
	}
	tools, _ := json.Marshal(t.Tools) // names and times always encode
	u.closed = append(u.closed, closedRow{
		ID: s.Attempt, Outcome: end, Reason: reason, Counted: flag(counted), Garbage: flag(end != string(outcome.KindDone)),
		ClosedAt: u.now, ReceivedAt: micros(t.ReceivedAt), StartedAt: micros(t.StartedAt), EndedAt: micros(t.EndedAt),
		ProviderWait: t.ProviderWait.Microseconds(), Tools: string(tools),
		Requests: t.Usage.Requests, InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens,
		step: s, dueAt: max(s.EmittedAt, s.NotBefore), claimedAt: born(s.Attempt),
	})
}

const (
	reasonCrashed   = "crashed"
	reasonCrashes   = "crashed_out"
	outcomeCrashed  = "crashed"
	outcomeReplaced = "taken_away" // the job ended while the execution ran
)

// crash closes the execution of an owner that has vanished, and ends the step when that happens too often.
// It reports whether the step is still alive.
func (u *unit) crash(s *stepRow, maxCrashes int) bool {
	u.closeAttempt(s, outcomeCrashed, reasonCrashed, false, Timings{})
	s.Crashes++
	u.set(s, stepQueued)
	if int(s.Crashes) < maxCrashes {
		return true
	}
	u.die(s, reasonCrashes, reasonCrashed)
	return false
}

// die ends a step for good, fails its job and puts a copy of the message into the dead-letter queue, for a person.
// Its attributes have the names that a pool gives to those of its own copies. Sibling parts go on: a redrive of this step
// then finds their work done. The cause is what its last execution ended with.
func (u *unit) die(s *stepRow, code, cause string) {
	u.died = true
	u.set(s, stepDead)
	s.Code, s.Sentence = code, sentences[code]
	u.send(s, s.DLQ, s.FIFO == 1, u.now, strconv.FormatInt(s.Emission, 10)+"/dead", map[string]string{
		"dead-reason": code, "dead-attempts": strconv.FormatInt(s.Attempts, 10), "dead-crashes": strconv.FormatInt(s.Crashes, 10),
		"dead-cause": cause, "dead-job": s.Job, "dead-stage": s.Stage,
	})
	if s.job.State == jobActive {
		u.endJob(s.job, jobFailed, code, sentences[code])
	}
}

// sentences are what a submitter reads about an end that is not theirs.
var sentences = map[string]string{
	outcome.ReasonExhausted: "A processing step failed several times; an operator has been told.",
	reasonCrashes:           "A processing step broke down several times; an operator has been told.",
}

// refuse ends a step and its job because of the input.
func (u *unit) refuse(s *stepRow, code, sentence string) error {
	u.set(s, stepRefused)
	s.Code, s.Sentence = code, sentence
	if s.job.State != jobActive {
		return nil
	}
	return u.stopJob(s.job, jobRefused, stepCancelled, code, sentence)
}

// stopJob ends a job and takes every unfinished step away from whoever runs it.
func (u *unit) stopJob(j *jobRow, state, stepState, code, sentence string) error {
	steps, err := u.loadJobs([]string{j.ID})
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.ended() {
			continue
		}
		if s.State == stepRunning {
			u.closeAttempt(s, outcomeReplaced, state, false, Timings{})
		}
		u.set(s, stepState)
		s.Code, s.Sentence = code, sentence
	}
	u.dropNewSteps(j, stepState)
	u.endJob(j, state, code, sentence)
	return nil
}

// dropNewSteps ends the steps of a job that this unit has added and not yet written, with their messages.
func (u *unit) dropNewSteps(j *jobRow, stepState string) {
	for _, s := range u.newSteps {
		if s.Job != j.ID {
			continue
		}
		u.set(s.stepRow, stepState)
		for i := range u.outbox {
			u.outbox[i].dropped = u.outbox[i].dropped || u.outbox[i].Step == s.ID
		}
	}
}

// endJob gives the job its end. Its account is settled when the unit is written.
func (u *unit) endJob(j *jobRow, state, code, sentence string) {
	j.waited = j.State == jobWaiting
	j.State, j.Code, j.Sentence, j.EndedAt, j.dirty = state, code, sentence, u.now, true
	u.ended = append(u.ended, j)
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
