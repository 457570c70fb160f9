package stage

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The bounds that come from outside, by their public sources.
const (
	// MaxStopTimeout is the longest stop timeout on Fargate (Amazon ECS API
	// Reference, ContainerDefinition, stopTimeout).
	MaxStopTimeout = 120 * time.Second
	// MaxPoll is the longest long poll (Amazon SQS API Reference, ReceiveMessage).
	MaxPoll = 20 * time.Second
	// MaxVisibility is the longest visibility timeout (Amazon SQS Developer Guide,
	// "Amazon SQS message quotas").
	MaxVisibility = 12 * time.Hour
	// MaxDelay is the longest per-message delay (same page).
	MaxDelay = 15 * time.Minute
	// MinRetention and MaxRetention bound a queue's retention (same page).
	MinRetention = time.Minute
	MaxRetention = 14 * 24 * time.Hour
	// MinProtection and MaxProtection bound the expiry of task scale-in protection
	// (Amazon ECS Developer Guide, "Task scale-in protection endpoint").
	MinProtection = time.Minute
	MaxProtection = 2880 * time.Minute
)

// maxObjective keeps an objective well inside the default retention.
const maxObjective = 24 * time.Hour

// MaxScratch is the largest ephemeral storage of a Fargate task in bytes (Amazon ECS
// API Reference, EphemeralStorage).
const MaxScratch = int64(200) << 30

// imageSpace is what an image with its tools takes, packed and unpacked, of the disk that
// the task has (Amazon ECS Developer Guide, "Fargate task ephemeral storage").
const imageSpace = int64(2) << 30

// Scratch is the disk in bytes that a task needs: for each slot its largest input, and
// as much again for what is made of it, beside the task's image.
func (p Profile) Scratch() int64 { return 2*int64(p.Slots)*p.MaxInput + imageSpace }

// providers are the kinds of provider that a handler can call.
var providers = []string{"speech", "language"}

// FieldError says which value of which stage breaks which bound.
type FieldError struct {
	Stage string // empty for the graph as a whole
	Field string
	Value any
	Bound string
}

// Error returns one line with stage, field, value and bound.
func (e *FieldError) Error() string {
	where := "pipeline"
	if e.Stage != "" {
		where = "stage " + e.Stage
	}
	return fmt.Sprintf("%s: %s is %v, must be %s", where, e.Field, e.Value, e.Bound)
}

// checks collects the errors of one stage.
type checks struct {
	stage string
	errs  []error
}

func (c *checks) must(ok bool, field string, value any, bound string, args ...any) {
	if !ok {
		c.errs = append(c.errs, &FieldError{c.stage, field, value, fmt.Sprintf(bound, args...)})
	}
}

// A name's words begin with letters, so that the names that are made of them without hyphens are different ones too. That of an
// environment is one word: "prod" with the stage "eu-ingest" and "prod-eu" with "ingest" would share a queue.
var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z][a-z0-9]*)*$`)
	envPattern  = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
)

// reserved are names that would make a service, a log group or an order ambiguous.
var reserved = []string{"all", "server", "migrate"}

// The longest names; a queue's name with environment, stage and endings has 80
// bytes at most (Amazon SQS Developer Guide, "Amazon SQS standard queue quotas").
const (
	maxName = 32
	maxEnv  = 20
)

func validName(s string, longest int) bool { return len(s) <= longest && namePattern.MatchString(s) }

// CheckEnv refuses a name that an environment cannot have.
func CheckEnv(env string) error {
	c := checks{}
	c.must(len(env) <= maxEnv && envPattern.MatchString(env), "Env", quoted(env),
		"lower-case letters and digits, beginning with a letter, at most %d bytes, without a hyphen, which would let two environments share a name", maxEnv)
	return errors.Join(c.errs...)
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

// Validate checks one stage, after its defaults. The error joins a *FieldError
// for every bound that is broken.
func (s Stage) Validate() error {
	s = s.WithDefaults()
	c := &checks{stage: s.Name}
	c.must(validName(s.Name, maxName), "Name", quoted(s.Name), "words of lower-case letters and digits, each beginning with a letter, joined by hyphens, at most %d bytes", maxName)
	c.must(!slices.Contains(reserved, s.Name), "Name", quoted(s.Name), "none of %s, which name other parts of a fleet", strings.Join(reserved, ", "))
	c.must(!strings.HasSuffix(s.Name, "-dlq"), "Name", quoted(s.Name), "without -dlq at its end, which names the dead letters of another stage")
	c.must(s.Summary != "", "Summary", quoted(s.Summary), "one line for people")
	c.must(s.Queue == FIFO || s.Queue == Standard, "Queue", quoted(string(s.Queue)), "%s or %s", FIFO, Standard)
	c.must(s.Next != s.Name, "Next", quoted(s.Next), "another stage")
	c.must(!s.FanOut || s.Next != "", "Next", quoted(s.Next), "the stage of the parts, as the stage fans out")
	c.must(!s.FanOut || !s.Join, "Join", s.Join, "false, as the stage fans out")
	for i, name := range s.Providers {
		c.must(slices.Contains(providers, name), fmt.Sprintf("Providers[%d]", i), quoted(name), "one of %v", providers)
		c.must(!slices.Contains(s.Providers[:i], name), fmt.Sprintf("Providers[%d]", i), quoted(name), "named once")
	}
	s.Profile.check(c)
	s.Durations.check(c, s.Profile)
	s.Retry.check(c, s.Queue)
	s.Breaker.check(c, s.Profile.Slots)
	return errors.Join(c.errs...)
}

func (p Profile) check(c *checks) {
	c.must(p.Slots >= 1, "Profile.Slots", p.Slots, "at least 1")
	c.must(p.MinTasks >= 1, "Profile.MinTasks", p.MinTasks, "at least 1")
	c.must(p.MaxTasks >= p.MinTasks, "Profile.MaxTasks", p.MaxTasks, "at least MinTasks, %d", p.MinTasks)
	c.must(p.MaxTasks*p.Slots <= p.Ceiling, "Profile.Ceiling", p.Ceiling, "at least MaxTasks x Slots, %d", p.MaxTasks*p.Slots)
	c.must(p.MaxInput >= 1, "Profile.MaxInput", p.MaxInput, "at least 1 byte")
	c.must(p.TimeLimit > 0, "Profile.TimeLimit", p.TimeLimit, "above 0")
	c.must(p.Objective >= time.Minute && p.Objective <= maxObjective, "Profile.Objective", p.Objective, "%v to %v", time.Minute, maxObjective)
	c.must(p.Typical > 0 && p.Typical <= p.TimeLimit, "Profile.Typical", p.Typical, "above 0 and at most TimeLimit, %v", p.TimeLimit)
	c.must(p.Scratch() <= MaxScratch, "Profile.MaxInput", p.MaxInput, "such that input and output of %d slots and an image of %d GiB fit into %d GiB", p.Slots, imageSpace>>30, MaxScratch>>30)
	p.checkSize(c)
}

// sizes are the memory sizes in MiB, from lo to hi by step, that a Fargate task of
// so many CPU units may have (Amazon ECS Developer Guide, "Task size").
var sizes = map[int]struct{ lo, hi, step int }{
	256: {512, 2048, 512}, 512: {1024, 4096, 1024}, 1024: {2048, 8192, 1024}, 2048: {4096, 16384, 1024},
	4096: {8192, 30720, 1024}, 8192: {16384, 61440, 4096}, 16384: {32768, 122880, 8192},
}

func (p Profile) checkSize(c *checks) {
	size, known := sizes[p.CPU]
	c.must(known, "Profile.CPU", p.CPU, "one of %v", slices.Sorted(maps.Keys(sizes)))
	if !known {
		return
	}
	fits := p.Memory >= size.lo && p.Memory <= size.hi && p.Memory%size.step == 0
	fits = fits && (p.CPU != 256 || p.Memory != 1536) // the one gap in the table
	c.must(fits, "Profile.Memory", p.Memory, "for %d CPU units %d to %d MiB in steps of %d", p.CPU, size.lo, size.hi, size.step)
}

func wholeSeconds(d time.Duration) bool { return d >= time.Second && d%time.Second == 0 }

func (d Durations) check(c *checks, p Profile) {
	c.must(wholeSeconds(d.Visibility) && d.Visibility >= 2*time.Second && d.Visibility <= MaxVisibility, "Durations.Visibility", d.Visibility, "whole seconds from 2s to %v", MaxVisibility)
	c.must(d.Lease > 0 && d.Lease <= d.Visibility, "Durations.Lease", d.Lease, "above 0 and at most Visibility, %v", d.Visibility)
	c.must(d.Beat > 0 && d.Beat <= d.Visibility/2, "Durations.Beat", d.Beat, "above 0 and at most half of Visibility, %v", d.Visibility/2)
	c.must(d.Beat <= d.Lease/2, "Durations.Beat", d.Beat, "at most half of Lease, %v", d.Lease/2)
	c.must(wholeSeconds(d.Poll) && d.Poll <= min(MaxPoll, d.Drain), "Durations.Poll", d.Poll, "whole seconds from 1s to the smaller of %v and Drain, %v", MaxPoll, d.Drain)
	c.must(d.Drain > 0, "Durations.Drain", d.Drain, "above 0")
	c.must(d.Grace > 0, "Durations.Grace", d.Grace, "above 0")
	c.must(d.Settle > 0, "Durations.Settle", d.Settle, "above 0")
	c.must(d.StopTimeout > d.Drain+d.Grace+d.Settle, "Durations.StopTimeout", d.StopTimeout, "more than Drain + Grace + Settle, %v", d.Drain+d.Grace+d.Settle)
	c.must(d.StopTimeout <= MaxStopTimeout, "Durations.StopTimeout", d.StopTimeout, "at most %v", MaxStopTimeout)
	c.must(d.Protection >= MinProtection && d.Protection <= MaxProtection && d.Protection%time.Minute == 0, "Durations.Protection", d.Protection, "whole minutes from %v to %v", MinProtection, MaxProtection)
	c.must(p.TimeLimit <= MaxVisibility-d.Visibility, "Profile.TimeLimit", p.TimeLimit, "at most what SQS hides a message for, %v, without Visibility, %v", MaxVisibility, d.Visibility)
	c.must(p.TimeLimit < d.Protection, "Profile.TimeLimit", p.TimeLimit, "less than Durations.Protection, %v", d.Protection)
	c.must(wholeSeconds(d.Retention) && d.Retention >= MinRetention && d.Retention < MaxRetention, "Durations.Retention", d.Retention, "whole seconds from %v to less than %v", MinRetention, MaxRetention)
	c.must(wholeSeconds(d.DLQRetention) && d.DLQRetention <= MaxRetention && d.DLQRetention > d.Retention, "Durations.DLQRetention", d.DLQRetention, "whole seconds, more than Retention, %v, and at most %v", d.Retention, MaxRetention)
}

func (r Retry) check(c *checks, kind Kind) {
	c.must(r.Attempts >= 1, "Retry.Attempts", r.Attempts, "at least 1")
	c.must(len(r.Waits) >= r.Attempts-1, "Retry.Waits", r.Waits, "one for each of the %d retries", r.Attempts-1)
	longest := MaxDelay // a standard queue's retry is a delayed message
	if kind == FIFO {
		longest = MaxVisibility / 2 // a FIFO queue's retry hides the message it holds
	}
	for i, w := range r.Waits {
		c.must(w >= 0 && w+time.Duration(float64(w)*r.Jitter) <= longest, fmt.Sprintf("Retry.Waits[%d]", i), w, "0 to %v with its jitter", longest)
	}
	c.must(r.Jitter >= 0 && r.Jitter <= 1, "Retry.Jitter", r.Jitter, "0 to 1")
	c.must(r.MaxRetryAfter >= 0 && r.MaxRetryAfter <= longest, "Retry.MaxRetryAfter", r.MaxRetryAfter, "0 to %v", longest)
	c.must(r.Crashes >= 1, "Retry.Crashes", r.Crashes, "at least 1")
	c.must(r.MaxReceives >= 2 && r.MaxReceives <= 1000, "Retry.MaxReceives", r.MaxReceives, "2 to 1000")
}

func (b Breaker) check(c *checks, slots int) {
	c.must(b.Window > 0, "Breaker.Window", b.Window, "above 0")
	c.must(b.Ratio > 0 && b.Ratio <= 1, "Breaker.Ratio", b.Ratio, "above 0 and at most 1")
	c.must(b.MinSamples >= 1, "Breaker.MinSamples", b.MinSamples, "at least 1")
	c.must(b.CallTime > 0, "Breaker.CallTime", b.CallTime, "above 0")
	c.must(b.Open > 0, "Breaker.Open", b.Open, "above 0")
	if b.CallTime > 0 {
		reach := int(b.Window/b.CallTime) * max(1, slots)
		c.must(b.MinSamples <= reach, "Breaker.MinSamples", b.MinSamples, "at most %d, the calls of %v that %d slots finish within Window, %v", reach, b.CallTime, slots, b.Window)
	}
}

// Validate checks settings as a worker receives them.
func (s Settings) Validate() error {
	c := &checks{stage: s.Stage.Name}
	c.must(s.Own.Stage == s.Stage.Name, "Settings.Own", quoted(s.Own.Stage), "the stage's own route")
	c.must((s.Next == nil) == (s.Stage.Next == ""), "Settings.Next", s.Next, "the route to Next, %q", s.Stage.Next)
	c.must((s.Join == nil) == !s.Stage.FanOut, "Settings.Join", s.Join, "a route exactly if the stage fans out")
	return errors.Join(CheckEnv(s.Environment), s.Stage.Validate(), errors.Join(c.errs...))
}
