package stage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// good returns a pipeline with every kind of hop: split fans out, cut takes parts, merge joins.
func good() stage.Pipeline {
	return stage.Pipeline{
		{Name: "read", Summary: "s", Next: "split"},
		{Name: "split", Summary: "s", Next: "cut", FanOut: true},
		{Name: "cut", Summary: "s", Next: "merge", Queue: stage.Standard},
		{Name: "merge", Summary: "s", Join: true},
	}
}

func TestAGoodManifestIsGoodAtEveryScale(t *testing.T) {
	for _, p := range []stage.Pipeline{good(), good().Scaled(stage.LocalScale), {{Name: "only", Summary: "s"}}} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryBrokenBoundIsNamed(t *testing.T) {
	cases := []struct {
		name  string
		stage string
		field string
		spoil func(stage.Pipeline)
	}{
		{"beat above half the visibility", "cut", "Durations.Beat", func(p stage.Pipeline) { p[2].Durations.Beat = 211 * time.Second }},
		{"beat above half the lease", "cut", "Durations.Beat", func(p stage.Pipeline) { p[2].Durations.Lease = 5 * time.Minute }},
		{"lease above the visibility", "cut", "Durations.Lease", func(p stage.Pipeline) { p[2].Durations.Lease = 8 * time.Minute }},
		{"visibility in fractions", "cut", "Durations.Visibility", func(p stage.Pipeline) { p[2].Durations.Visibility = 421500 * time.Millisecond }},
		{"visibility above twelve hours", "cut", "Durations.Visibility", func(p stage.Pipeline) { p[2].Durations.Visibility = 13 * time.Hour }},
		{"poll above twenty seconds", "cut", "Durations.Poll", func(p stage.Pipeline) { p[2].Durations.Poll = 21 * time.Second }},
		{"poll above the drain", "cut", "Durations.Poll", func(p stage.Pipeline) { p[2].Durations.Drain = 19 * time.Second }},
		{"negative grace", "cut", "Durations.Grace", func(p stage.Pipeline) { p[2].Durations.Grace = -1 }},
		{"negative settle", "cut", "Durations.Settle", func(p stage.Pipeline) { p[2].Durations.Settle = -1 }},
		{"stop timeout equal to the parts of a stop", "cut", "Durations.StopTimeout", func(p stage.Pipeline) { p[2].Durations.StopTimeout = 41 * time.Second }},
		{"stop timeout above the platform's", "cut", "Durations.StopTimeout", func(p stage.Pipeline) { p[2].Durations.StopTimeout = 121 * time.Second }},
		{"time limit as long as the protection", "cut", "Profile.TimeLimit", func(p stage.Pipeline) { p[2].Profile.TimeLimit = 2 * time.Hour }},
		{"time limit beyond what a queue hides a message for", "cut", "Profile.TimeLimit", func(p stage.Pipeline) {
			p[2].Profile.TimeLimit, p[2].Durations.Protection = 12*time.Hour-7*time.Minute+1, 24*time.Hour
		}},
		{"no tasks at all", "cut", "Profile.MinTasks", func(p stage.Pipeline) { p[2].Profile.MinTasks = -1 }},
		{"protection above two days", "cut", "Durations.Protection", func(p stage.Pipeline) { p[2].Durations.Protection = 2881 * time.Minute }},
		{"protection in fractions of a minute", "cut", "Durations.Protection", func(p stage.Pipeline) { p[2].Durations.Protection = 2*time.Hour + time.Second }},
		{"dead letters kept no longer than messages", "cut", "Durations.DLQRetention", func(p stage.Pipeline) { p[2].Durations.DLQRetention = 96 * time.Hour }},
		{"retention at the maximum", "cut", "Durations.Retention", func(p stage.Pipeline) { p[2].Durations.Retention = 14 * 24 * time.Hour }},
		{"more slots than the ceiling", "cut", "Profile.Ceiling", func(p stage.Pipeline) { p[2].Profile = stage.Profile{Slots: 3, MaxTasks: 4, Ceiling: 11} }},
		{"negative slots", "cut", "Profile.Slots", func(p stage.Pipeline) { p[2].Profile.Slots = -1 }},
		{"fewer tasks at most than at least", "cut", "Profile.MaxTasks", func(p stage.Pipeline) { p[2].Profile = stage.Profile{MinTasks: 3, MaxTasks: 2} }},
		{"negative largest input", "cut", "Profile.MaxInput", func(p stage.Pipeline) { p[2].Profile.MaxInput = -1 }},
		{"a CPU size that is not sold", "cut", "Profile.CPU", func(p stage.Pipeline) { p[2].Profile.CPU = 300 }},
		{"an objective of seconds", "cut", "Profile.Objective", func(p stage.Pipeline) { p[2].Profile.Objective = time.Second }},
		{"a typical time above the limit", "cut", "Profile.Typical", func(p stage.Pipeline) { p[2].Profile = stage.Profile{TimeLimit: time.Minute, Typical: time.Hour} }},
		{"inputs that no disk holds", "cut", "Profile.MaxInput", func(p stage.Pipeline) { p[2].Profile = stage.Profile{Slots: 30, MaxInput: 4 << 30} }},
		{"an unknown provider", "cut", "Providers[0]", func(p stage.Pipeline) { p[2].Providers = []string{"weather"} }},
		{"a provider named twice", "cut", "Providers[1]", func(p stage.Pipeline) { p[2].Providers = []string{"speech", "speech"} }},
		{"memory too small for the CPU", "cut", "Profile.Memory", func(p stage.Pipeline) { p[2].Profile = stage.Profile{CPU: 1024, Memory: 1024} }},
		{"memory between the sizes", "cut", "Profile.Memory", func(p stage.Pipeline) { p[2].Profile = stage.Profile{CPU: 256, Memory: 1536} }},
		{"fewer waits than retries", "cut", "Retry.Waits", func(p stage.Pipeline) { p[2].Retry.Waits = []time.Duration{time.Second} }},
		{"a wait longer than a message can be delayed", "cut", "Retry.Waits[1]", func(p stage.Pipeline) { p[2].Retry.Waits = []time.Duration{1, 15 * time.Minute} }},
		{"jitter above the whole", "cut", "Retry.Jitter", func(p stage.Pipeline) { p[2].Retry.Jitter = 1.5 }},
		{"negative crashes", "cut", "Retry.Crashes", func(p stage.Pipeline) { p[2].Retry.Crashes = -1 }},
		{"a single receive", "cut", "Retry.MaxReceives", func(p stage.Pipeline) { p[2].Retry.MaxReceives = 1 }},
		{"negative attempts", "cut", "Retry.Attempts", func(p stage.Pipeline) { p[2].Retry.Attempts = -1 }},
		{"a breaker sample out of reach", "cut", "Breaker.MinSamples", func(p stage.Pipeline) { p[2].Breaker.CallTime = 10 * time.Second }},
		{"a breaker ratio above the whole", "cut", "Breaker.Ratio", func(p stage.Pipeline) { p[2].Breaker.Ratio = 1.1 }},
		{"no summary", "cut", "Summary", func(p stage.Pipeline) { p[2].Summary = "" }},
		{"an unknown kind of queue", "cut", "Queue", func(p stage.Pipeline) { p[2].Queue = "lifo" }},
		{"a name with an upper-case letter", "Cut", "Name", func(p stage.Pipeline) { p[2].Name, p[1].Next = "Cut", "Cut" }},
		{"a name beyond the bound", strings.Repeat("a", 33), "Name", func(p stage.Pipeline) { p[2].Name, p[1].Next = strings.Repeat("a", 33), strings.Repeat("a", 33) }},
		{"the server's name", "server", "Name", func(p stage.Pipeline) { p[2].Name, p[1].Next = "server", "server" }},
		{"the name of another stage's dead letters", "probe-dlq", "Name", func(p stage.Pipeline) { p[2].Name, p[1].Next = "probe-dlq", "probe-dlq" }},
		{"a word of a name that begins with a digit", "cut-1", "Name", func(p stage.Pipeline) { p[2].Name, p[1].Next = "cut-1", "cut-1" }},
		{"a name used twice", "", "Name", func(p stage.Pipeline) { p[0].Name = "cut" }},
		{"an unknown next stage", "cut", "Next", func(p stage.Pipeline) { p[2].Next = "gone" }},
		{"two stages before one", "cut", "Next", func(p stage.Pipeline) { p[0].Next = "merge" }},
		{"two starts", "", "start", func(p stage.Pipeline) { p[0].Next = "" }},
		{"two ends", "", "end", func(p stage.Pipeline) { p[2].Next = "" }},
		{"a cycle beside the chain", "", "cycle", func(p stage.Pipeline) {
			p[2].Next, p[1].Next, p[0].Next, p[1].FanOut, p[3].Join = "split", "cut", "merge", false, false
		}},
		{"a stage that follows itself", "cut", "Next", func(p stage.Pipeline) { p[2].Next = "cut" }},
		{"a fan-out that nothing joins", "split", "FanOut", func(p stage.Pipeline) { p[3].Join = false }},
		{"a join of nothing", "merge", "Join", func(p stage.Pipeline) { p[1].FanOut = false }},
		{"a join right after the fan-out", "cut", "Join", func(p stage.Pipeline) { p[2].Join, p[3].Join = true, false }},
		{"two stages of parts", "split", "FanOut", func(p stage.Pipeline) { p[3].Join = false; p[2].Next, p[3].Next = "merge", "" }},
		{"a fan-out of parts", "split", "Next", func(p stage.Pipeline) { p[2].FanOut = true }},
		{"a fan-out at the end", "merge", "Next", func(p stage.Pipeline) { p[3].FanOut, p[3].Join = true, false }},
		{"a fan-out that joins", "split", "Join", func(p stage.Pipeline) { p[1].Join = true }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := good()
			c.spoil(p)
			for _, e := range fieldErrors(p.Validate()) {
				if e.Stage == c.stage && e.Field == c.field {
					if e.Bound == "" || !strings.Contains(e.Error(), e.Bound) {
						t.Errorf("the error does not state the bound: %v", e)
					}
					return
				}
			}
			t.Errorf("no error for %s of stage %q in: %v", c.field, c.stage, p.Validate())
		})
	}
}

// TestNoTwoEnvironmentsShareANameOfAnything: a hyphen in an environment's name could be the one before a stage's.
func TestNoTwoEnvironmentsShareANameOfAnything(t *testing.T) {
	if a, b := (stage.Stage{Name: "eu-ingest"}).QueueName("prod"), (stage.Stage{Name: "ingest"}).QueueName("prod-eu"); a != b {
		t.Fatalf("%s and %s differ, so hyphens may be allowed", a, b)
	}
	for _, env := range []string{"prod-eu", "Prod", "", "1prod", strings.Repeat("x", 21), "prod_eu"} {
		_, err := good().Settings(env, "cut")
		if err == nil || stage.CheckEnv(env) == nil || !strings.Contains(err.Error(), "Env is ") {
			t.Errorf("environment %q: %v", env, err)
		}
	}
	for _, env := range []string{"prod", "prodeu", "p1", strings.Repeat("x", 20)} {
		if err := stage.CheckEnv(env); err != nil {
			t.Error(err)
		}
	}
}

// TestTheImageHasRoomBesideTheMedia: both are on the one disk of a task.
func TestTheImageHasRoomBesideTheMedia(t *testing.T) {
	p := stage.Profile{Slots: 2, MaxInput: 5 << 30}
	if got := p.Scratch(); got <= 20<<30 {
		t.Errorf("%d bytes for 20 GiB of media and an image", got)
	}
	full := good()
	full[2].Profile = stage.Profile{Slots: 25, MaxInput: 4 << 30}
	if err := full.Validate(); err == nil || !strings.Contains(err.Error(), "Profile.MaxInput") {
		t.Errorf("200 GiB of media leave no room: %v", err)
	}
}

func TestAnEmptyManifestIsRefused(t *testing.T) {
	if err := (stage.Pipeline{}).Validate(); err == nil {
		t.Error("accepted")
	}
}

func TestTheBoundsThemselvesAreAllowed(t *testing.T) {
	p := good()
	p[2].Durations = stage.Durations{
		Beat: 210 * time.Second, Poll: 20 * time.Second, Drain: 20 * time.Second, StopTimeout: 31*time.Second + 1,
		Retention: 14*24*time.Hour - time.Second, DLQRetention: 14 * 24 * time.Hour,
	}
	p[2].Profile = stage.Profile{Slots: 3, MaxTasks: 4, Ceiling: 12, TimeLimit: 2*time.Hour - 1}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// fieldErrors takes a joined error apart.
func fieldErrors(err error) []*stage.FieldError {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*stage.FieldError
		for _, e := range many.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	if e, ok := errors.AsType[*stage.FieldError](err); ok {
		return []*stage.FieldError{e}
	}
	return nil
}
