package handler

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media/mediatest"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

func TestAToolKilledFromOutsideCostsATryNotTheRecording(t *testing.T) {
	content := film(t, "a.mp4", slices.Concat(picture, tone)...)
	for name, script := range map[string]string{
		"both":                    "kill -KILL $$",
		"the one of the sound":    `case "$*" in *` + audioFile + `*) kill -KILL $$;; esac; exec $REAL "$@"`,
		"the one of the picture":  `case "$*" in *poster*) kill -TERM $$;; esac; exec $REAL "$@"`,
		"ffmpeg, which caught it": "exit 255",
	} {
		t.Run(name, func(t *testing.T) {
			mediatest.Instead(t, "ffmpeg", script)
			got, _ := ingested(t, content)
			if got.Verdict.Kind != outcome.KindRetry || len(got.Gaps) != 0 {
				t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
			}
		})
	}
	t.Run("ffprobe", func(t *testing.T) {
		mediatest.Instead(t, "ffprobe", "kill -KILL $$")
		if got, _ := ingested(t, content); got.Verdict.Kind != outcome.KindRetry {
			t.Fatalf("ended %+v", got.Verdict)
		}
	})
}

func TestWhatWasDecodedIsKeptWhenAToolGivesUpInTheEnd(t *testing.T) {
	content := film(t, "a.mp4", slices.Concat(picture, speech, padded)...)
	mediatest.Instead(t, "ffmpeg", `$REAL "$@"; exit 69`)
	got, _ := ingested(t, content)
	m := got.Output
	if got.Verdict.Kind != outcome.KindDone || !slices.Equal(codes(got.Gaps), []string{"damaged"}) {
		t.Fatalf("ended %+v with %v", got.Verdict, got.Gaps)
	}
	if m.Audio == nil || len(m.Speech) == 0 || len(m.Posters) != 3 || !m.Facts.HasVideo || m.Facts.DurationMs < 7900 {
		t.Fatalf("got %+v", m)
	}
}

func TestADecodeBombIsRefusedBeforeTheTimeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, film(t, "a.mp4", slices.Concat(picture, tone)...), 0o600); err != nil {
		t.Fatal(err)
	}
	mediatest.Instead(t, "ffmpeg", `[ "$(ulimit -t)" -gt 480 ] || kill -XCPU $$; exit 1`) // at its limit, if that leaves both tools time
	objects := workertest.NewObjects(t)
	store := worker.NewObjects(objects.Store, "jobs/j/a1", t.TempDir(), 0)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Minute, outcome.ErrTimeLimit)
	defer cancel()
	_, err := ingest{}.Handle(ctx, worker.Task[recording.Source]{Dir: t.TempDir(), Objects: store,
		Input: recording.Source{V: recording.Version, Object: objects.PutFile("jobs/j/source", path), Name: canary}})
	if got := outcome.Of(err); got.Kind != outcome.KindReject || got.Reason != "too_costly" {
		t.Fatalf("ended %+v", got)
	}
}
