package stage

import (
	"fmt"
	"math"
	"time"
)

// Signal is a quantity that an alarm watches. Package infra maps each to CloudWatch and
// to Prometheus; the local evaluator gets them as samples.
type Signal string

// The signals. Those of the queues come from SQS; the others from workers and server,
// which say them as metrics of their own.
const (
	SignalDLQ        Signal = "dlq"        // visible messages in the dead-letter queue
	SignalDLQAge     Signal = "dlq_age"    // seconds that the oldest of them has been there
	SignalWaiting    Signal = "waiting"    // visible messages in the stage's queue
	SignalAge        Signal = "age"        // seconds that the oldest message has waited
	SignalStalled    Signal = "stalled"    // visible messages, in periods in which none was finished and no pause held; else 0
	SignalFinished   Signal = "finished"   // messages whose work has ended, in a period; no rule watches it, stalled is made of it
	SignalBreaker    Signal = "breaker"    // 1 while the breaker of a worker is not closed
	SignalStuck      Signal = "stuck"      // handlers that have not returned after the end of their context
	SignalLost       Signal = "lost"       // executions that lost their lease, in a period
	SignalRefused    Signal = "refused"    // refusals of task protection, in a period
	SignalQuarantine Signal = "quarantine" // quarantines and panics, in a period
	SignalMissing    Signal = "missing"    // tasks that should run and do not
	SignalPaused     Signal = "paused"     // 1 while a worker is paused or switched off
	SignalOutbox     Signal = "outbox"     // seconds by which the oldest unsent message is late
	SignalServer     Signal = "no_server"  // servers that should run and do not
	SignalRecord     Signal = "no_record"  // 1 while the record does not answer the server, which then knows of no lag either
)

// Severity says what an alarm does to people.
type Severity string

const (
	// Inform leaves a note for office hours.
	Inform Severity = "inform"
	// Page wakes somebody.
	Page Severity = "page"
)

// Alarm is one rule: the signal reaches the threshold in Points of the last Of periods.
// A period without data never counts as reached.
type Alarm struct {
	// Name is unique within the stage, and the name of the runbook.
	Name   string
	Signal Signal
	// Threshold is reached by a value at or above it.
	Threshold  float64
	Period     time.Duration
	Points, Of int
	// Severity is Inform for every leaf; the composites page.
	Severity Severity
	// DuringPause says that a pause of the stage does not suppress the alarm.
	DuringPause bool
	// Summary says what the alarm means, Action what to do first.
	Summary, Action string
	// Not says in which outputs the rule does not come out, and why.
	Not map[Output]string
}

// Output is a place where the rules are evaluated. Every rule comes out in all of them, but for those in its Not.
type Output string

// The outputs.
const (
	CloudWatch Output = "CloudWatch" // alarms of the templates
	Local      Output = "server"     // the server's own evaluation, which needs neither: Firing and ServerFiring
	Prometheus Output = "Prometheus" // alerting rules beside the templates
)

// Outputs returns every output.
func Outputs() []Output { return []Output{CloudWatch, Local, Prometheus} }

// Window is the time that the rule looks at.
func (a Alarm) Window() time.Duration { return time.Duration(a.Of) * a.Period }

// String returns the rule as a person reads it.
func (a Alarm) String() string {
	return fmt.Sprintf("%s >= %g in %d of %d periods of %s", a.Signal, a.Threshold, a.Points, a.Of, short(a.Period))
}

// short is a duration without zero parts.
func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// The names of the alarms, which are also those of their runbooks.
const (
	AlarmDLQ        = "dlq-depth"
	AlarmDLQAge     = "dlq-age"
	AlarmDepth      = "queue-depth"
	AlarmAge        = "oldest-age"
	AlarmStalled    = "no-progress"
	AlarmBreaker    = "breaker-open"
	AlarmStuck      = "stuck-handlers"
	AlarmLost       = "lease-losses"
	AlarmRefused    = "protection-refused"
	AlarmQuarantine = "quarantines"
	AlarmMissing    = "tasks-missing"
	AlarmPaused     = "paused"
	AlarmBroken     = "stage-broken"
	AlarmAttention  = "stage-attention"
	AlarmOutbox     = "outbox-lag"
	AlarmServer     = "server-missing"
	AlarmRecord     = "record-silent"
	AlarmServerDown = "server-broken"
)

// DepthLimit is the number of waiting messages above which a queue is deep.
const DepthLimit = 100

// Alarms returns the rules of the stage, most urgent first.
func (s Stage) Alarms() []Alarm {
	s = s.WithDefaults()
	return informing(append(s.queueAlarms(), s.workerAlarms()...))
}

// informing makes leaves of rules.
func informing(all []Alarm) []Alarm {
	for i := range all {
		all[i].Severity = Inform
	}
	return all
}

func (s Stage) queueAlarms() []Alarm {
	return []Alarm{
		{Name: AlarmDLQ, Signal: SignalDLQ, Threshold: 1, Period: time.Minute, Points: 1, Of: 1, DuringPause: true,
			Summary: "work of this stage has ended in its dead-letter queue and waits for a person",
			Action:  "list the dead letters and read the reason of the oldest"},
		{Name: AlarmDLQAge, Signal: SignalDLQAge, Threshold: s.deadAge().Seconds(), Period: 5 * time.Minute, Points: 1, Of: 1, DuringPause: true,
			Summary: "a dead letter has used three quarters of the time that the queue keeps it, then it is lost",
			Action:  "redrive or discard the oldest dead letters today"},
		{Name: AlarmDepth, Signal: SignalWaiting, Threshold: DepthLimit + 1, Period: time.Minute, Points: 3, Of: 5,
			Summary: fmt.Sprintf("more than %d messages wait", DepthLimit),
			Action:  "see whether the stage is at its most tasks and whether they are busy"},
		{Name: AlarmAge, Signal: SignalAge, Threshold: s.Profile.Objective.Seconds(), Period: time.Minute, Points: 3, Of: 5,
			Summary: "the oldest message has waited longer than the stage's objective",
			Action:  "see whether the stage is at its most tasks and whether they are busy"},
		s.stalled(),
	}
}

// stalled looks back over the time limit: after it every slot has been freed, so a queue
// that nothing has left by then is not worked on. SQS's own clock adds a period.
func (s Stage) stalled() Alarm {
	period := 5 * time.Minute
	n := max(3, int(math.Ceil(float64(s.Profile.TimeLimit)/float64(period)))+1)
	return Alarm{Name: AlarmStalled, Signal: SignalStalled, Threshold: 1, Period: period, Points: n, Of: n,
		Summary: "messages wait, and not one was finished within the time limit of a handler",
		Action:  "see what the workers say that they wait for"}
}

func (s Stage) workerAlarms() []Alarm {
	return []Alarm{
		{Name: AlarmBreaker, Signal: SignalBreaker, Threshold: 1, Period: time.Minute, Points: 5, Of: 5,
			Summary: "a provider that the stage calls has failed for five minutes; the stage waits for it",
			Action:  "see the provider's own status page, then the workers' log"},
		{Name: AlarmStuck, Signal: SignalStuck, Threshold: 1, Period: time.Minute, Points: 3, Of: 5,
			Summary: "a handler goes on after its context has ended; its slot was replaced, its memory was not",
			Action:  "read the stack in the worker's log, then replace the task"},
		{Name: AlarmLost, Signal: SignalLost, Threshold: 3, Period: 15 * time.Minute, Points: 1, Of: 1,
			Summary: "executions lost their lease: beats come too late or the record does not answer",
			Action:  "see how late the beats are and whether the tasks' processors are full"},
		{Name: AlarmRefused, Signal: SignalRefused, Threshold: 3, Period: 5 * time.Minute, Points: 2, Of: 3,
			Summary: "ECS refuses to protect tasks, so they finish what they hold and receive nothing",
			Action:  "see whether a deployment hangs or fewer tasks are desired than are protected"},
		{Name: AlarmQuarantine, Signal: SignalQuarantine, Threshold: 3, Period: 5 * time.Minute, Points: 1, Of: 1,
			Summary: "handlers panic or give messages up as not to be understood: a bad release, or bad data",
			Action:  "compare the time with the last deployment; roll back if they agree"},
		{Name: AlarmMissing, Signal: SignalMissing, Threshold: 1, Period: time.Minute, Points: 10, Of: 10,
			Summary: "fewer tasks run than should",
			Action:  "read why the last tasks stopped"},
	}
}

// deadAge is three quarters of the time that a dead letter is kept. A standard queue's
// keeps the age that it came with, which its metric does not show (Amazon SQS Developer
// Guide, "Using dead-letter queues in Amazon SQS", message retention).
func (s Stage) deadAge() time.Duration {
	kept := s.Durations.DLQRetention
	if s.Queue == Standard {
		kept -= s.Durations.Retention
	}
	return (kept * 3 / 4).Truncate(time.Minute)
}

// Paused is the rule that says that a stage is paused. It tells nobody; it suppresses.
func (s Stage) Paused() Alarm {
	return Alarm{Name: AlarmPaused, Signal: SignalPaused, Threshold: 1, Period: time.Minute, Points: 1, Of: 2,
		Summary: "the stage is paused or switched off", Action: "ask who paused it and why",
		Not: map[Output]string{Local: "a stage says by itself that it is paused", Prometheus: "each rule that a pause suppresses asks the metric itself"}}
}

// ServerAlarms returns the rules of the server.
func ServerAlarms() []Alarm {
	return informing([]Alarm{
		{Name: AlarmOutbox, Signal: SignalOutbox, Threshold: 120, Period: time.Minute, Points: 3, Of: 5, DuringPause: true,
			Summary: "messages that the record owes to the queues are late: steps wait that no queue knows of",
			Action:  "see whether the server runs and what it says of the relay"},
		{Name: AlarmServer, Signal: SignalServer, Threshold: 1, Period: time.Minute, Points: 5, Of: 5, DuringPause: true,
			Summary: "the server does not run: nothing can be submitted, and nothing is relayed or repaired",
			Action:  "read why its last task stopped",
			Not:     map[Output]string{Local: "a server that does not run evaluates nothing"}},
		{Name: AlarmRecord, Signal: SignalRecord, Threshold: 1, Period: time.Minute, Points: 3, Of: 5, DuringPause: true,
			Summary: "the record does not answer the server: nothing can be submitted, claimed or published",
			Action:  "see whether the database runs and who holds its connections",
			Not:     map[Output]string{Local: "what the server evaluates is in the record"}},
	})
}

// Term is a set of alarms that must ring together.
type Term []string

// Composite rings when any of its terms does, a term when all of its alarms do.
type Composite struct {
	Name            string
	Any             []Term
	Severity        Severity
	Summary, Action string
	// Not says in which outputs the composite does not come out, and why.
	Not map[Output]string
}

// Broken is the composite that pages: dead letters, a queue both deep and late, or one
// that stands still.
func (s Stage) Broken() Composite {
	return Composite{Name: AlarmBroken, Any: []Term{{AlarmDLQ}, {AlarmDepth, AlarmAge}, {AlarmStalled}}, Severity: Page,
		Summary: "the stage does not do its work: dead letters, a deep and late queue, or no progress",
		Action:  "see which of its alarms ring, and follow the runbook of the first"}
}

// Attention is the composite that informs of every other alarm that a pause suppresses.
func (s Stage) Attention() Composite {
	c := Composite{Name: AlarmAttention, Severity: Inform,
		Summary: "an alarm of the stage rings that can wait until the morning",
		Action:  "see which of its alarms ring, and follow the runbook of the first",
		Not:     map[Output]string{Local: "each alarm that rings is listed", Prometheus: "each alert informs by itself: a rule can ask whether the stage is paused"}}
	for _, a := range s.Alarms() {
		if !a.DuringPause {
			c.Any = append(c.Any, Term{a.Name})
		}
	}
	return c
}

// ServerBroken is the composite that pages for the server.
func ServerBroken() Composite {
	return Composite{Name: AlarmServerDown, Any: []Term{{AlarmRecord}, {AlarmServer}, {AlarmOutbox}}, Severity: Page,
		Summary: "the server does not do its work", Action: "see which of its alarms ring, and follow that runbook"}
}
