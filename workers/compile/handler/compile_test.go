package handler

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

func ffmpeg(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", append([]string{"-v", "error"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg: %v: %s", err, out)
	}
}

// given keeps a generated film and orders the clip from second 1 to second 3 of it.
func given(t *testing.T, args ...string) workertest.Case[recording.ClipOrder] {
	t.Helper()
	film := filepath.Join(t.TempDir(), "film.mp4")
	ffmpeg(t, append(args, film)...)
	objects := workertest.NewObjects(t)
	return workertest.Case[recording.ClipOrder]{Objects: objects, Input: recording.ClipOrder{
		V: recording.Version, Index: 2, Source: objects.PutFile("in/film", film), Demuxer: "mov", Title: "A title",
		Facts:   recording.Facts{DurationMs: 6000, HasVideo: true, HasAudio: true, Width: 320, Height: 180},
		Segment: recording.Segment{StartMs: 1000, EndMs: 3000},
		Cues:    []recording.Cue{{StartMs: 0, EndMs: 2000, Lines: []string{"hello there"}}},
	}}
}

func handle(t *testing.T, c workertest.Case[recording.ClipOrder]) worker.Tried[recording.Clip] {
	t.Helper()
	return workertest.Handle(t, New, c)
}

// probe looks at the clip that was made.
func probe(t *testing.T, c workertest.Case[recording.ClipOrder], made recording.Clip) media.Declared {
	t.Helper()
	path, err := c.Objects.Store.Path(t.Context(), made.Video.Key, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seen, err := media.Runner{Dir: t.TempDir()}.Probe(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

var (
	picture = []string{"-f", "lavfi", "-i", "testsrc=d=6:r=10:s=320x180"}
	sound   = []string{"-f", "lavfi", "-i", "sine=d=6"}
)

func TestAClipIsMadeAsOrderedByOneFfmpeg(t *testing.T) {
	c := given(t, append(picture, sound...)...)
	got := handle(t, c)
	clip := got.Output
	if got.Verdict.Kind != outcome.KindDone || len(got.Gaps) != 0 {
		t.Fatalf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
	}
	if clip.Index != 2 || clip.Title != "A title" || clip.DurationMs < 1900 || clip.DurationMs > 2100 || clip.Video.Type != "video/mp4" || len(clip.Cues) != 1 {
		t.Errorf("clip %+v", clip)
	}
	var tools []string
	for _, run := range got.Tools {
		tools = append(tools, run.Tool)
	}
	if strings.Join(tools, " ") != "ffmpeg ffprobe" {
		t.Errorf("tools %v", tools)
	}
	if seen := probe(t, c, clip); seen.Video == nil || seen.Video.Width != 320 || seen.Audio == nil {
		t.Errorf("the clip has %+v", seen)
	}
}

func TestARecordingWithoutAPictureShowsItsStill(t *testing.T) {
	c := given(t, sound...)
	still := filepath.Join(t.TempDir(), "still.jpg")
	ffmpeg(t, "-f", "lavfi", "-i", "color=s=640x360", "-frames:v", "1", "-update", "1", still)
	obj := c.Objects.PutFile("in/still.jpg", still)
	c.Input.Facts, c.Input.Still = recording.Facts{DurationMs: 6000, HasAudio: true, StillImage: true}, &obj
	got := handle(t, c)
	if got.Verdict.Kind != outcome.KindDone {
		t.Fatalf("verdict %+v", got.Verdict)
	}
	if seen := probe(t, c, got.Output); seen.Video == nil || seen.Video.Width != 640 || seen.Audio == nil {
		t.Errorf("the clip has %+v", seen)
	}
}

func TestAClipThatLostItsPictureIsKeptWithAGap(t *testing.T) {
	c := given(t, "-f", "lavfi", "-i", "testsrc=d=2:r=10:s=320x180", "-f", "lavfi", "-i", "sine=d=6")
	got := handle(t, c)
	if got.Verdict.Kind != outcome.KindDone || len(got.Gaps) != 1 || got.Gaps[0].Code != GapShort || !strings.HasPrefix(got.Gaps[0].Sentence, "Clip 3 lacks") {
		t.Fatalf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
	}
	if got.Output.DurationMs < 1900 {
		t.Errorf("the clip lasts %d ms", got.Output.DurationMs)
	}
}

func TestAMissingSourceIsAFailureThatMayPass(t *testing.T) {
	c := given(t, append(picture, sound...)...)
	c.Input.Source.Key = "in/other"
	if got := handle(t, c); got.Verdict.Kind != outcome.KindRetry {
		t.Errorf("verdict %+v", got.Verdict)
	}
}

func TestASourceThatCannotBeDecodedIsAFailure(t *testing.T) {
	c := given(t, append(picture, sound...)...)
	c.Input.Source = c.Objects.Put("in/noise", []byte(strings.Repeat("noise ", 1000)))
	if got := handle(t, c); got.Verdict.Kind != outcome.KindRetry || strings.Contains(got.Verdict.Err.Error(), "noise") {
		t.Errorf("verdict %+v", got.Verdict)
	}
}
