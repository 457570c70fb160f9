package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

var errTool = errors.New("exit status 1")

func TestErrorsAreReadBack(t *testing.T) {
	deadline := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		err  error
		want outcome.Verdict
	}{
		"nil":                     {nil, outcome.Verdict{Kind: outcome.KindDone, Reason: "done"}},
		"plain":                   {errTool, outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}},
		"retry":                   {outcome.Retry(errTool), outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}},
		"retry after":             {outcome.RetryAfter(time.Minute, errTool), outcome.Verdict{Kind: outcome.KindRetry, Reason: "retry_after", After: time.Minute}},
		"retry after nothing":     {outcome.RetryAfter(0, errTool), outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}},
		"defer":                   {outcome.Defer(time.Minute, "busy"), outcome.Verdict{Kind: outcome.KindDefer, Reason: "busy", After: time.Minute}},
		"defer into the past":     {outcome.Defer(-1, "busy"), outcome.Verdict{Kind: outcome.KindDefer, Reason: "busy"}},
		"reject":                  {outcome.Reject("empty", "It is empty."), outcome.Verdict{Kind: outcome.KindReject, Reason: "empty", Sentence: "It is empty."}},
		"quarantine":              {outcome.Quarantine("bad", errTool), outcome.Verdict{Kind: outcome.KindQuarantine, Reason: "bad"}},
		"await":                   {outcome.Await("call", deadline), outcome.Verdict{Kind: outcome.KindAwait, Reason: "await", Effect: "call", Deadline: deadline}},
		"lost":                    {outcome.ErrLeaseLost, outcome.Verdict{Kind: outcome.KindLost, Reason: "lease_lost"}},
		"draining":                {outcome.ErrDraining, outcome.Verdict{Kind: outcome.KindInterrupted, Reason: "draining"}},
		"superseded":              {outcome.ErrSuperseded, outcome.Verdict{Kind: outcome.KindSuperseded, Reason: "superseded"}},
		"cancelled":               {outcome.ErrCancelled, outcome.Verdict{Kind: outcome.KindCancelled, Reason: "cancelled"}},
		"time limit":              {outcome.ErrTimeLimit, outcome.Verdict{Kind: outcome.KindRetry, Reason: "time_limit"}},
		"horizon":                 {outcome.ErrHorizon, outcome.Verdict{Kind: outcome.KindRetry, Reason: "horizon"}},
		"stuck":                   {outcome.ErrStuck, outcome.Verdict{Kind: outcome.KindStuck, Reason: "stuck"}},
		"panic":                   {&outcome.Panic{Value: "x"}, outcome.Verdict{Kind: outcome.KindPanic, Reason: "panic"}},
		"goexit":                  {&outcome.Panic{}, outcome.Verdict{Kind: outcome.KindPanic, Reason: "goroutine_exited"}},
		"cause over reject":       {errors.Join(outcome.Reject("a", "b"), outcome.ErrDraining), outcome.Verdict{Kind: outcome.KindInterrupted, Reason: "draining"}},
		"lost over draining":      {errors.Join(outcome.ErrDraining, outcome.ErrLeaseLost), outcome.Verdict{Kind: outcome.KindLost, Reason: "lease_lost"}},
		"with a reason":           {missing("ffmpeg_missing"), outcome.Verdict{Kind: outcome.KindRetry, Reason: "ffmpeg_missing"}},
		"retry with a reason":     {outcome.Retry(missing("ffmpeg_missing")), outcome.Verdict{Kind: outcome.KindRetry, Reason: "ffmpeg_missing"}},
		"after, with a reason":    {outcome.RetryAfter(time.Minute, missing("http_429")), outcome.Verdict{Kind: outcome.KindRetry, Reason: "http_429", After: time.Minute}},
		"fail":                    {outcome.Fail("model_missing", errTool), outcome.Verdict{Kind: outcome.KindRetry, Reason: "model_missing"}},
		"cause over reason":       {errors.Join(missing("ffmpeg_missing"), outcome.ErrTimeLimit), outcome.Verdict{Kind: outcome.KindRetry, Reason: "time_limit"}},
		"code over reason":        {outcome.Quarantine("bad", missing("ffmpeg_missing")), outcome.Verdict{Kind: outcome.KindQuarantine, Reason: "bad"}},
		"reason made from data":   {missing("no such file: Holiday.mp4"), outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}},
		"reason without end":      {missing(strings.Repeat("a", 65)), outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}},
		"reason of 64":            {missing(strings.Repeat("a", 64)), outcome.Verdict{Kind: outcome.KindRetry, Reason: strings.Repeat("a", 64)}},
		"cancelled by a stranger": {context.Canceled, outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{c.err, wrap(c.err)} {
				got := outcome.Of(err)
				if (got.Err == nil) != (c.err == nil) || got.Err != nil && !errors.Is(got.Err, c.err) {
					t.Errorf("error %v, want %v", got.Err, c.err)
				}
				if got.Err = nil; got != c.want {
					t.Errorf("verdict %+v, want %+v", got, c.want)
				}
			}
		})
	}
}

// missing is a Reasoner whose reason it is.
type missing string

func (m missing) Error() string  { return "it is missing" }
func (m missing) Reason() string { return string(m) }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))
}

func TestConstructorsKeepTheErrorBeneath(t *testing.T) {
	for _, err := range []error{outcome.Retry(errTool), outcome.Fail("x", errTool), outcome.RetryAfter(1, errTool), outcome.Quarantine("x", errTool)} {
		if !errors.Is(err, errTool) || !strings.Contains(err.Error(), errTool.Error()) {
			t.Errorf("%v does not have %v", err, errTool)
		}
	}
	if got := outcome.Defer(1, "busy").Error(); got != "defer: busy" {
		t.Errorf("text %q", got)
	}
}

func TestEndOfAContextExplainsTheErrorThatFollowsIt(t *testing.T) {
	live := t.Context()
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want outcome.Kind
	}{
		"success counts":            {ended(outcome.ErrDraining), nil, outcome.KindDone},
		"before the end":            {live, errTool, outcome.KindRetry},
		"reject before the end":     {live, outcome.Reject("a", "b"), outcome.KindReject},
		"after draining":            {ended(outcome.ErrDraining), outcome.Reject("a", "b"), outcome.KindInterrupted},
		"after the lease":           {ended(outcome.ErrLeaseLost), errTool, outcome.KindLost},
		"cause returned by handler": {ended(outcome.ErrDraining), outcome.ErrDraining, outcome.KindInterrupted},
		"cause of a stranger":       {ended(nil), outcome.Reject("a", "b"), outcome.KindReject},
	} {
		if got := outcome.Of(outcome.Because(c.ctx, c.err)).Kind; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if err := outcome.Because(ended(outcome.ErrDraining), errTool); !errors.Is(err, errTool) || !errors.Is(err, outcome.ErrDraining) {
		t.Errorf("%v does not have both", err)
	}
}

func TestPanicTellsOnlyWhatTheRuntimeMade(t *testing.T) {
	var err runtime.Error
	func() {
		defer func() { err, _ = recover().(runtime.Error) }()
		var m map[string]int
		m["a"] = 1
	}()
	for value, want := range map[any]string{
		nil:           "handler ended its goroutine",
		"secret":      "handler panicked with a string",
		err:           "handler panicked: assignment to entry in nil map",
		[1]string{""}: "handler panicked with a [1]string",
	} {
		if got := (&outcome.Panic{Value: value}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPolicyDecides(t *testing.T) {
	retry, after := outcome.Verdict{Kind: outcome.KindRetry, Reason: "failed"}, func(d time.Duration) outcome.Verdict {
		return outcome.Verdict{Kind: outcome.KindRetry, Reason: "retry_after", After: d}
	}
	four := outcome.Policy{MaxAttempts: 4, Waits: []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}}
	for name, c := range map[string]struct {
		policy  outcome.Policy
		verdict outcome.Verdict
		attempt int
		random  float64
		want    outcome.Action
	}{
		"done":                     {verdict: outcome.Of(nil), attempt: 2, want: outcome.Action{Do: outcome.Finish, Attempt: 2, Reason: "done"}},
		"first failure":            {verdict: retry, attempt: 1, want: outcome.Action{Do: outcome.Wait, Wait: 30 * time.Second, Attempt: 1, Reason: "failed"}},
		"second failure":           {verdict: retry, attempt: 2, want: outcome.Action{Do: outcome.Wait, Wait: 60 * time.Second, Attempt: 2, Reason: "failed"}},
		"third failure":            {verdict: retry, attempt: 3, want: outcome.Action{Do: outcome.Die, Attempt: 3, Reason: "exhausted"}},
		"third of four":            {policy: four, verdict: retry, attempt: 3, want: outcome.Action{Do: outcome.Wait, Wait: 2 * time.Minute, Attempt: 3, Reason: "failed"}},
		"fourth of four":           {policy: four, verdict: retry, attempt: 4, want: outcome.Action{Do: outcome.Die, Attempt: 4, Reason: "exhausted"}},
		"last wait repeats":        {policy: outcome.Policy{MaxAttempts: 9}, verdict: retry, attempt: 7, want: outcome.Action{Do: outcome.Wait, Wait: time.Minute, Attempt: 7, Reason: "failed"}},
		"panic counts":             {verdict: outcome.Of(&outcome.Panic{}), attempt: 3, want: outcome.Action{Do: outcome.Die, Attempt: 3, Reason: "exhausted"}},
		"provider said when":       {verdict: after(5 * time.Second), attempt: 1, want: outcome.Action{Do: outcome.Wait, Wait: 5 * time.Second, Attempt: 1, Reason: "retry_after"}},
		"provider at the bound":    {verdict: after(15 * time.Minute), attempt: 1, want: outcome.Action{Do: outcome.Wait, Wait: 15 * time.Minute, Attempt: 1, Reason: "retry_after"}},
		"provider beyond it":       {verdict: after(15*time.Minute + 1), attempt: 3, want: outcome.Action{Do: outcome.Wait, Wait: 15*time.Minute + 1, Attempt: 2, Reason: "retry_after"}},
		"jitter only lengthens":    {policy: outcome.Policy{Jitter: 0.5}, verdict: retry, attempt: 1, random: 0.5, want: outcome.Action{Do: outcome.Wait, Wait: 37500 * time.Millisecond, Attempt: 1, Reason: "failed"}},
		"defer is no attempt":      {verdict: outcome.Of(outcome.Defer(time.Minute, "busy")), attempt: 3, want: outcome.Action{Do: outcome.Wait, Wait: time.Minute, Attempt: 2, Reason: "busy"}},
		"reject":                   {verdict: outcome.Of(outcome.Reject("a", "b")), attempt: 1, want: outcome.Action{Do: outcome.Refuse, Attempt: 1, Reason: "a"}},
		"quarantine":               {verdict: outcome.Of(outcome.Quarantine("a", nil)), attempt: 1, want: outcome.Action{Do: outcome.Die, Attempt: 1, Reason: "a"}},
		"await is no attempt yet":  {verdict: outcome.Of(outcome.Await("e", time.Time{})), attempt: 1, want: outcome.Action{Do: outcome.Park, Reason: "await"}},
		"interrupted is none":      {verdict: outcome.Of(outcome.ErrDraining), attempt: 3, want: outcome.Action{Do: outcome.Release, Attempt: 2, Reason: "draining"}},
		"lost":                     {verdict: outcome.Of(outcome.ErrLeaseLost), attempt: 1, want: outcome.Action{Do: outcome.Drop, Reason: "lease_lost"}},
		"superseded":               {verdict: outcome.Of(outcome.ErrSuperseded), attempt: 1, want: outcome.Action{Do: outcome.Drop, Reason: "superseded"}},
		"attempt zero waits too":   {verdict: retry, attempt: 0, want: outcome.Action{Do: outcome.Wait, Wait: 30 * time.Second, Reason: "failed"}},
		"own bound of retry after": {policy: outcome.Policy{MaxRetryAfter: time.Second}, verdict: after(2 * time.Second), attempt: 1, want: outcome.Action{Do: outcome.Wait, Wait: 2 * time.Second, Reason: "retry_after"}},
	} {
		if got := c.policy.Decide(c.verdict, c.attempt, c.random); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestDecisionsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := outcome.Policy{
			MaxAttempts: rapid.IntRange(1, 6).Draw(t, "max"),
			Waits:       []time.Duration{time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))},
			Jitter:      rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		attempt := rapid.IntRange(1, 10).Draw(t, "attempt")
		v := outcome.Of(rapid.SampledFrom([]error{
			nil, errTool, outcome.RetryAfter(time.Minute, errTool), outcome.Defer(time.Minute, "x"), outcome.Reject("x", "y"),
			outcome.Quarantine("x", nil), outcome.ErrDraining, outcome.ErrLeaseLost, &outcome.Panic{},
		}).Draw(t, "end"))
		a := p.Decide(v, attempt, rapid.Float64Range(0, 0.999).Draw(t, "random"))
		counts := v.Kind == outcome.KindRetry || v.Kind == outcome.KindPanic
		switch {
		case counts && attempt >= p.MaxAttempts && a.Do != outcome.Die:
			t.Fatalf("%+v: a last attempt that failed is not the end", a)
		case counts && attempt < p.MaxAttempts && a.Do != outcome.Wait:
			t.Fatalf("%+v: an early failure is not tried again", a)
		case a.Do == outcome.Wait && v.After > 0 && a.Wait < v.After:
			t.Fatalf("%+v: earlier than was asked for", a)
		case a.Wait > 2*max(v.After, p.Waits[0]):
			t.Fatalf("%+v: longer than jitter allows", a)
		case a.Attempt != attempt && a.Attempt != attempt-1:
			t.Fatalf("%+v: attempts jumped from %d", a, attempt)
		}
	})
}

func TestAWaitThatNobodyCanMeanIsBounded(t *testing.T) {
	for _, end := range []error{outcome.RetryAfter(math.MaxInt64, errTool), outcome.Defer(math.MaxInt64, "x")} {
		for _, jitter := range []float64{0, 1} {
			a := outcome.Policy{Jitter: jitter}.Decide(outcome.Of(end), 1, 0.9)
			if a.Do != outcome.Wait || a.Wait < 30*24*time.Hour || a.Wait > 60*24*time.Hour {
				t.Errorf("%v: %+v", end, a)
			}
		}
	}
}

func TestPolicyThatCannotWorkIsRefused(t *testing.T) {
	for field, p := range map[string]outcome.Policy{
		"MaxAttempts":   {MaxAttempts: -1},
		"Jitter":        {Jitter: 1.1},
		"MaxRetryAfter": {MaxRetryAfter: -1},
		"Waits[1]":      {Waits: []time.Duration{1, -1}},
	} {
		if err := p.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (outcome.Policy{}).Validate(); err != nil {
		t.Error(err)
	}
}
