package handler

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media/mediatest"

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

// withStill gives an order the poster that ingest took.
func withStill(t *testing.T, c workertest.Case[recording.ClipOrder]) workertest.Case[recording.ClipOrder] {
	t.Helper()
	still := filepath.Join(t.TempDir(), "still.jpg")
	ffmpeg(t, "-f", "lavfi", "-i", "color=s=320x180", "-frames:v", "1", "-update", "1", still)
	obj := c.Objects.PutFile("in/poster.jpg", still)
	c.Input.Still = &obj
	return c
}

func TestWhatARecordingLacksIsStoodInForAndSaid(t *testing.T) {
	film := func(picture, sound int) []string {
		return []string{"-f", "lavfi", "-i", fmt.Sprintf("testsrc=d=%d:r=10:s=320x180", picture), "-f", "lavfi", "-i", fmt.Sprintf("sine=d=%d", sound)}
	}
	for name, c := range map[string]struct {
		picture, sound int // seconds of the recording
		start          int64
		lack           string
		audio          bool
	}{
		"picture ends within":    {2, 6, 1000, "stands still after 1.0 seconds, because no more of its picture could be read.", true},
		"picture ended before":   {1, 6, 2000, "shows a still picture, because no moving one could be read there.", true},
		"sound ends within":      {6, 2, 1000, "is silent after 1.0 seconds, because no more of its sound could be read.", true},
		"sound ended before":     {6, 1, 2000, "has no sound, because none could be read there.", false},
		"everything is in there": {6, 6, 1000, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			order := withStill(t, given(t, film(c.picture, c.sound)...))
			order.Input.Segment = recording.Segment{StartMs: c.start, EndMs: c.start + 2000}
			got := handle(t, order)
			if got.Verdict.Kind != outcome.KindDone || got.Output.Video == nil {
				t.Fatalf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
			}
			if c.lack != "" && (len(got.Gaps) != 1 || got.Gaps[0].Code != GapShort || !strings.HasPrefix(got.Gaps[0].Sentence, "Clip 3 (0:0") || !strings.HasSuffix(got.Gaps[0].Sentence, ") "+c.lack)) {
				t.Errorf("gaps %+v", got.Gaps)
			}
			if c.lack == "" && len(got.Gaps) != 0 {
				t.Errorf("gaps %+v", got.Gaps)
			}
			seen := probe(t, order, got.Output)
			if seen.Video == nil || seen.Video.Duration < 1900*time.Millisecond || (seen.Audio != nil) != c.audio || got.Output.DurationMs < 1900 {
				t.Errorf("the clip has %+v and %+v", seen.Video, seen.Audio)
			}
		})
	}
}

func TestAClipOfAStreamWithoutAKeyframeThereShowsTheStill(t *testing.T) {
	film := filepath.Join(t.TempDir(), "film.ts")
	ffmpeg(t, append(append(slices.Clone(picture), sound...), "-g", "1000", "-keyint_min", "1000", "-sc_threshold", "0", film)...)
	c := withStill(t, given(t, append(slices.Clone(picture), sound...)...))
	c.Input.Source, c.Input.Demuxer = c.Objects.PutFile("in/film.ts", film), "mpegts"
	c.Input.Segment = recording.Segment{StartMs: 3000, EndMs: 5000}
	got := handle(t, c)
	if got.Verdict.Kind != outcome.KindDone || got.Output.Video == nil || len(got.Gaps) != 1 || !strings.Contains(got.Gaps[0].Sentence, "shows a still") {
		t.Fatalf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
	}
	if seen := probe(t, c, got.Output); seen.Video == nil || seen.Audio == nil {
		t.Errorf("the clip has %+v", seen)
	}
}

func TestADamagedRecordingEndsInClipsAndGapsNeverInFailures(t *testing.T) {
	film := filepath.Join(t.TempDir(), "film.mp4")
	ffmpeg(t, append(append(slices.Clone(picture), sound...), "-movflags", "+faststart", film)...)
	whole, err := os.ReadFile(film)
	if err != nil {
		t.Fatal(err)
	}
	for _, percent := range []int{45, 65, 85, 100} {
		t.Run(fmt.Sprintf("%d percent", percent), func(t *testing.T) {
			content := slices.Clone(whole)
			dice := rand.New(rand.NewPCG(1, 1))
			for i := bytes.Index(content, []byte("mdat")) + 4; i < len(content); i++ {
				if i%64*100 < 64*percent {
					content[i] = byte(dice.Uint32())
				}
			}
			c := withStill(t, given(t, picture...))
			c.Input.Source = c.Objects.Put("in/ruin", content)
			got := handle(t, c)
			if got.Verdict.Kind != outcome.KindDone || len(got.Gaps) == 0 && got.Output.Video == nil {
				t.Fatalf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
			}
			if got.Output.Video != nil && probe(t, c, got.Output).Video == nil {
				t.Error("the clip has no picture")
			}
		})
	}
}

func TestAClipIsLeftOutWithAGapWhenNothingOfItCanBeRead(t *testing.T) {
	for name, c := range map[string]workertest.Case[recording.ClipOrder]{
		"with a still": withStill(t, given(t, picture...)), "without": given(t, picture...),
	} {
		c.Input.Source = c.Objects.Put("in/noise", []byte(strings.Repeat("noise ", 1000)))
		got := handle(t, c)
		if got.Verdict.Kind != outcome.KindDone || got.Output.Video != nil || got.Output.DurationMs != 0 || len(got.Gaps) != 1 || got.Gaps[0].Code != GapUnmade {
			t.Errorf("%s: verdict %+v, gaps %+v", name, got.Verdict, got.Gaps)
		}
	}
}

func TestToolsThatFailWithoutTheRecordingTooAreAFailure(t *testing.T) {
	c := withStill(t, given(t, append(slices.Clone(picture), sound...)...))
	for _, script := range []string{"exit 1", "exit 0", "kill -KILL $$"} {
		mediatest.Instead(t, "ffmpeg", script)
		if got := handle(t, c); got.Verdict.Kind != outcome.KindRetry || len(got.Gaps) != 0 {
			t.Errorf("%s: verdict %+v, gaps %+v", script, got.Verdict, got.Gaps)
		}
	}
}

func TestACutThatGaveUpInTheEndIsKeptWithAGap(t *testing.T) {
	c := withStill(t, given(t, append(slices.Clone(picture), sound...)...))
	mediatest.Instead(t, "ffmpeg", `$REAL "$@"; exit 69`)
	got := handle(t, c)
	if got.Verdict.Kind != outcome.KindDone || got.Output.Video == nil || len(got.Gaps) != 1 || !strings.Contains(got.Gaps[0].Sentence, "may lack") {
		t.Errorf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
	}
}

func TestAClipThatCostsTooMuchIsLeftOutWithAGap(t *testing.T) {
	c := withStill(t, given(t, append(slices.Clone(picture), sound...)...))
	mediatest.Instead(t, "ffmpeg", "kill -XCPU $$")
	got := handle(t, c)
	if got.Verdict.Kind != outcome.KindDone || got.Output.Video != nil || len(got.Gaps) != 1 || !strings.Contains(got.Gaps[0].Sentence, "more computing") {
		t.Errorf("verdict %+v, gaps %+v", got.Verdict, got.Gaps)
	}
}

func TestAMissingSourceIsAFailureThatMayPass(t *testing.T) {
	c := given(t, append(picture, sound...)...)
	c.Input.Source.Key = "in/other"
	if got := handle(t, c); got.Verdict.Kind != outcome.KindRetry {
		t.Errorf("verdict %+v", got.Verdict)
	}
}
