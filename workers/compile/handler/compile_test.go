package handler

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// given keeps a generated film of six seconds and orders the clip from second 1 to second 3 of it.
func given(t *testing.T, args ...string) task {
	t.Helper()
	store, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := task{Dir: dir, Job: "j", Part: 0, Attempt: 1, Objects: worker.NewObjects(store, "jobs/j/a", dir, 0)}
	film := filepath.Join(t.TempDir(), "film.mp4")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", append(append([]string{"-v", "error"}, args...), film)...).CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v: %s", err, out)
	}
	source, err := in.Objects.Put(t.Context(), "source", film)
	if err != nil {
		t.Fatal(err)
	}
	in.Input = recording.ClipOrder{
		V: recording.Version, Index: 2, Source: source, Demuxer: "mov", Title: "A title",
		Facts:   recording.Facts{DurationMs: 6000, HasVideo: true, HasAudio: true, Width: 320, Height: 180},
		Segment: recording.Segment{StartMs: 1000, EndMs: 3000},
		Cues:    []recording.Cue{{StartMs: 0, EndMs: 2000, Lines: []string{"hello there"}}},
	}
	return in
}

var (
	picture = []string{"-f", "lavfi", "-i", "testsrc=d=6:r=10:s=320x180"}
	sound   = []string{"-f", "lavfi", "-i", "sine=d=6"}
)

func TestAClipIsMadeAsOrdered(t *testing.T) {
	in := given(t, append(picture, sound...)...)
	got, err := handler{}.Handle(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if got.Index != 2 || got.Title != "A title" || got.DurationMs < 1900 || got.DurationMs > 2100 || got.Video.Type != "video/mp4" || len(got.Cues) != 1 {
		t.Errorf("clip %+v", got)
	}
}

func TestARecordingWithoutAPictureShowsItsStill(t *testing.T) {
	in := given(t, sound...)
	still := filepath.Join(t.TempDir(), "still.jpg")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=s=640x360", "-frames:v", "1", still).CombinedOutput(); err != nil {
		t.Fatalf("make a still: %v: %s", err, out)
	}
	obj, err := in.Objects.Put(t.Context(), "still.jpg", still)
	if err != nil {
		t.Fatal(err)
	}
	in.Input.Facts = recording.Facts{DurationMs: 6000, HasAudio: true, StillImage: true}
	in.Input.Still = &obj
	got, err := handler{}.Handle(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	path, err := in.Objects.Path(t.Context(), got.Video)
	if err != nil {
		t.Fatal(err)
	}
	made, err := media.Runner{Dir: t.TempDir()}.Probe(t.Context(), path)
	if err != nil || made.Video == nil || made.Video.Width != 640 || made.Audio == nil {
		t.Errorf("clip %+v, %v", made, err)
	}
}

func TestAMissingSourceIsAFailureThatMayPass(t *testing.T) {
	in := given(t, append(picture, sound...)...)
	in.Input.Source.Key = "jobs/j/other"
	_, err := handler{}.Handle(t.Context(), in)
	if !errors.Is(err, blob.ErrNotFound) || outcome.Of(err).Kind != outcome.KindRetry {
		t.Errorf("error %v", err)
	}
}

func TestADamagedClipIsKept(t *testing.T) {
	in := given(t, "-f", "lavfi", "-i", "testsrc=d=2:r=10:s=320x180", "-f", "lavfi", "-i", "sine=d=6")
	got, err := handler{}.Handle(t.Context(), in)
	if err != nil || got.DurationMs < 1900 {
		t.Errorf("clip %+v, %v", got, err)
	}
}
