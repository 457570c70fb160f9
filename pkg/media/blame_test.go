package media

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media/mediatest"
)

func TestAFailureIsBlamedOnTheInputTheLimitOrTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		dir, script           string
		gaveUp, limit, outage bool
	}{
		"exit":                {"", "exit 3", true, false, false},
		"crash":               {"", "kill -SEGV $$", true, false, false},
		"abort":               {"", "kill -ABRT $$", true, false, false},
		"killed":              {"", "kill -KILL $$", false, false, true},
		"terminated":          {"", "kill -TERM $$", false, false, true},
		"limit of time":       {"", "kill -XCPU $$", false, true, false},
		"limit of size":       {"", "kill -XFSZ $$", false, true, false},
		"a disk without room": {"/proc", "exit 1", false, false, true},
		"success":             {"", "exit 0", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shell(t, Runner{Dir: c.dir}, c.script)
			if GaveUp(err) != c.gaveUp || errors.Is(err, ErrLimit) != c.limit || errors.Is(err, ErrMachine) != c.outage {
				t.Errorf("%v: gave up %t, limit %t, machine %t", err, GaveUp(err), errors.Is(err, ErrLimit), errors.Is(err, ErrMachine))
			}
		})
	}
}

func TestFFmpegThatCatchesASignalWasStillStopped(t *testing.T) {
	// It is told to stop once it catches the signal, not before: the mask of /proc says when.
	mediatest.Instead(t, "ffmpeg", `$REAL "$@" & until grep -q 'SigCgt:.*[4-7c-f]...$' /proc/$!/status; do sleep 0.1; done; kill -TERM $!; wait $!`)
	_, err := Runner{}.Run(t.Context(), "ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2", "-f", "null", "-")
	if !errors.Is(err, ErrMachine) || GaveUp(err) {
		t.Fatalf("got %v", err)
	}
}

func TestAKilledProbeSaysNothingAboutTheFile(t *testing.T) {
	path := makeFile(t, "a.wav", tone(1)...)
	mediatest.Instead(t, "ffprobe", "kill -KILL $$")
	if _, err := (Runner{}).Probe(t.Context(), path); !errors.Is(err, ErrMachine) || errors.Is(err, ErrFormat) {
		t.Fatalf("got %v", err)
	}
}

func TestACostlyInputReachesItsLimitBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := Within(t.Context(), 2); got != (Limits{}) {
			t.Errorf("without a deadline: %+v", got)
		}
		for left, want := range map[time.Duration]time.Duration{
			20 * time.Minute: 8 * time.Minute, 10 * time.Hour: DefaultCPU, time.Second: time.Second, -time.Hour: time.Second,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			if got := Within(ctx, 2); got != (Limits{CPU: want}) {
				t.Errorf("%v left for two tools: %+v", left, got)
			}
			cancel()
		}
	})
}
