package job_test

import (
	"testing"
	"time"
)

func TestTheOutboxIsLateByItsOldestUnsentMessage(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		lag := func() time.Duration {
			t.Helper()
			lag, err := f.s.OutboxLag(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			return lag
		}
		if got := lag(); got != 0 {
			t.Errorf("late by %v without a message", got)
		}
		if _, err := f.s.Submit(f.ctx, f.submission("talk")); err != nil {
			t.Fatal(err)
		}
		f.age(10 * time.Minute)
		if got := lag(); got < 10*time.Minute || got > 11*time.Minute {
			t.Errorf("late by %v, want 10m", got)
		}
		f.pump(nil)
		if got := lag(); got != 0 {
			t.Errorf("late by %v after the message was sent", got)
		}
	})
}
