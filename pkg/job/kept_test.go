package job_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Postgres keeps no NUL and nothing but UTF-8, so neither store takes them: the work would run again and again to no end.
func TestWhatPostgresCannotKeepIsNeverTakenForAFaultOfTheStore(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		bytes := json.RawMessage("\"\xff\"")
		sub := f.submission("bytes")
		sub.Input = bytes
		if _, err := f.s.Submit(f.ctx, sub); err == nil {
			t.Error("an input that is no text was taken")
		}
		j := f.submit(f.submission("talk"))
		c := f.claim("ingest")
		for what, p := range map[string]job.Publication{
			"output": {Claim: c, Output: bytes, Next: next("transcribe")},
			"part":   {Claim: c, FanOut: true, Parts: []json.RawMessage{bytes}, Next: next("compile"), Join: next("publish")},
		} {
			if _, err := f.s.Publish(f.ctx, p); !errors.Is(err, job.ErrInvalidPublication) {
				t.Errorf("%s: %v, want ErrInvalidPublication", what, err)
			}
		}
		for _, name := range []string{"", "a\x00b", "\xff"} {
			if _, err := f.s.EffectBegin(f.ctx, c, name); err == nil || !isInvalid(err) {
				t.Errorf("effect %q: %v, want *Invalid", name, err)
			}
		}
		f.end(c, outcome.Reject("name", "The name \xff\x00 is bad."))
		if got := f.state(j.ID, job.Rejected).Reason.Sentence; got != "The name \uFFFD is bad." {
			t.Errorf("sentence %q", got)
		}
		f.sound()
	})
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*job.Invalid](err)
	return ok
}

func TestADatabaseThatOnlyReadsDoesNotAnswerAPing(t *testing.T) {
	onBothWithHost(t, func(t *testing.T, f *fixture, _ *host, url string) {
		if f.s.Postgres() {
			url += "&default_transaction_read_only=on"
		}
		s, err := job.Open(f.ctx, url, job.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if !f.s.Postgres() {
			if err := s.Change(f.ctx, "PRAGMA query_only = ON"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Ping(f.ctx); err == nil {
			t.Error("the store is said to be well")
		}
		if err := f.s.Ping(f.ctx); err != nil {
			t.Errorf("a store that writes: %v", err)
		}
	})
}

func TestAnEndInWordsThatPostgresCannotKeepIsTaken(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for name, c := range map[string]struct {
			end  error
			want job.State
			code string
		}{
			"a":  {outcome.Quarantine("bug\x00", nil), job.Failed, "bug"},
			"b":  {outcome.Reject("bad\xff", "It is bad."), job.Rejected, "bad\uFFFD"},
			"c":  {outcome.Await("\x00\xff", time.Now().Add(time.Hour)), job.Failed, job.ReasonAwaitUnknown},
			"d0": {outcome.Fail("\xff", errBoom), job.Retrying, ""},
			"d1": {outcome.Defer(time.Minute, "a\x00"), job.Retrying, ""},
		} {
			j := f.submit(f.submission(name))
			f.end(f.claim("ingest"), c.end)
			if got := f.state(j.ID, c.want); c.code != "" && (got.Reason == nil || got.Reason.Code != c.code) {
				t.Errorf("%s: reason %+v, want %q", name, got.Reason, c.code)
			}
		}
	})
}
