package media

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media/mediatest"
)

// film makes a source of our own with ffmpeg's generators.
func film(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", append(append([]string{"-v", "error", "-y"}, args...), path)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a source: %v: %s", err, out)
	}
	return path
}

func cut(t *testing.T, c Clip) (Declared, Made) {
	t.Helper()
	r := Runner{Dir: t.TempDir()}
	if c.Captions != "" {
		srt := "1\n00:00:00,000 --> 00:00:02,000\nHELLO THERE\n\n"
		if err := os.WriteFile(filepath.Join(r.Dir, c.Captions), []byte(srt), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := r.Cut(t.Context(), c, "clip.mp4")
	if err != nil {
		t.Fatal(err)
	}
	declared, err := r.Probe(t.Context(), filepath.Join(r.Dir, "clip.mp4"))
	if err != nil && made != (Made{}) {
		t.Fatal(err)
	}
	return declared, made
}

func near(a, b time.Duration) bool { return (a - b).Abs() <= 100*time.Millisecond }

func TestAClipHasTheLengthAndSizeThatWereOrdered(t *testing.T) {
	tone := []string{"-f", "lavfi", "-i", "sine=d=4"}
	picture := func(size string) []string { return []string{"-f", "lavfi", "-i", "testsrc=d=4:r=10:s=" + size} }
	for name, c := range map[string]struct {
		source        []string
		clip          Clip
		width, height int
	}{
		"captions burned":    {append(picture("320x180"), tone...), Clip{Width: 320, Height: 180, Sound: true, Captions: "c.srt"}, 320, 180},
		"no sound":           {picture("320x180"), Clip{Width: 320, Height: 180}, 320, 180},
		"odd size":           {append(picture("321x181"), append(tone, "-pix_fmt", "yuv444p")...), Clip{Width: 321, Height: 181, Sound: true}, 320, 180},
		"larger than a clip": {append(picture("1600x200"), tone...), Clip{Width: 1600, Height: 200, Sound: true}, 1280, 160},
		"portrait":           {append(picture("180x320"), tone...), Clip{Width: 180, Height: 320, Sound: true, Captions: "c.srt", Top: true}, 180, 320},
		"frames seconds apart": {append([]string{"-f", "lavfi", "-i", "testsrc=d=4:r=1/3:s=320x180"}, append(tone, "-fps_mode", "passthrough")...),
			Clip{Width: 320, Height: 180, Sound: true}, 320, 180},
	} {
		t.Run(name, func(t *testing.T) {
			c.clip.Source, c.clip.Demuxer, c.clip.Start, c.clip.Length = film(t, c.source...), "mov", time.Second, 2*time.Second
			made, got := cut(t, c.clip)
			if !near(got.Length, c.clip.Length) || !near(got.Picture, c.clip.Length) || got.GaveUp || made.Video.Width != c.width || made.Video.Height != c.height || (made.Audio != nil) != c.clip.Sound {
				t.Errorf("%+v of %+v with sound %+v", got, made.Video, made.Audio)
			}
		})
	}
}

func TestSoundWithoutAPictureGetsTheStill(t *testing.T) {
	still := filepath.Join(t.TempDir(), "100%d.jpg")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=640x360",
		"-frames:v", "1", "-update", "1", "file:"+still).CombinedOutput(); err != nil {
		t.Fatalf("make a still: %v: %s", err, out)
	}
	made, got := cut(t, Clip{
		Source: film(t, "-f", "lavfi", "-i", "sine=d=4"), Demuxer: "mov", Start: time.Second, Length: 2 * time.Second,
		Still: still, Sound: true, Captions: "c.srt",
	})
	if !near(got.Length, 2*time.Second) || made.Video.Width != 640 || made.Audio == nil {
		t.Errorf("%+v of %+v with sound %+v", got, made.Video, made.Audio)
	}
}

func TestAClipSaysHowMuchPictureAndSoundItHolds(t *testing.T) {
	source := film(t, "-f", "lavfi", "-i", "testsrc=d=2:s=320x180", "-f", "lavfi", "-i", "sine=d=6")
	for start, picture := range map[time.Duration]time.Duration{0: 2 * time.Second, 1400 * time.Millisecond: 600 * time.Millisecond, 4 * time.Second: 0} {
		clip := Clip{Source: source, Demuxer: "mov", Start: start, Length: 2 * time.Second, Width: 320, Height: 180, Sound: true}
		if _, got := cut(t, clip); !near(got.Picture, picture) || !near(got.Sound, 2*time.Second) {
			t.Errorf("from %v: got %+v, want a picture for %v", start, got, picture)
		}
		clip.Hold = true
		if _, got := cut(t, clip); picture > 0 && !near(got.Picture, 2*time.Second) {
			t.Errorf("from %v: the last picture stands until %v", start, got.Picture)
		}
	}
}

func TestAClipOfAStillAloneNeedsNoSource(t *testing.T) {
	still := makeFile(t, "still.jpg", "-f", "lavfi", "-i", "testsrc=s=321x181", "-frames:v", "1", "-update", "1")
	made, got := cut(t, Clip{Source: "/nowhere", Demuxer: "mov", Length: 2 * time.Second, Width: 321, Height: 181, Still: still, HDR: true, Captions: "c.srt"})
	if !near(got.Picture, 2*time.Second) || got.Sound != 0 || made.Video.Width != 320 || made.Video.Height != 180 {
		t.Errorf("got %+v", got)
	}
}

func TestWhatFFmpegLeavesOfADamagedSourceIsLookedAt(t *testing.T) {
	whole, err := os.ReadFile(film(t, "-f", "lavfi", "-i", "testsrc=d=8:s=320x180", "-f", "lavfi", "-i", "sine=d=8", "-movflags", "+faststart"))
	if err != nil {
		t.Fatal(err)
	}
	for _, percent := range []int{45, 85} { // more than ffmpeg forgives by default; of the latter it decodes a frame of sound at most
		content := slices.Clone(whole)
		ruin(content, percent)
		source := writeFile(t, "x.mp4", string(content))
		_, got := cut(t, Clip{Source: source, Demuxer: "mov", Start: time.Second, Length: 6 * time.Second, Width: 320, Height: 180, Sound: true})
		if percent < 50 && max(got.Sound, got.Picture) < 3*time.Second || percent > 50 && max(got.Sound, got.Picture) > 100*time.Millisecond {
			t.Errorf("%d %% ruined: got %+v", percent, got)
		}
	}
}

func TestAClipOfASourceThatCannotBeOpenedIsNone(t *testing.T) {
	if _, got := cut(t, Clip{Source: writeFile(t, "x.mp4", "noise"), Demuxer: "mov", Length: time.Second, Width: 320, Height: 180, Sound: true}); got != (Made{}) {
		t.Errorf("got %+v", got)
	}
}

func TestAnEarlierFileIsNotTakenForTheClip(t *testing.T) {
	r := Runner{Dir: t.TempDir()}
	source := film(t, "-f", "lavfi", "-i", "testsrc=d=2:s=320x180")
	clip := Clip{Source: source, Demuxer: "mov", Length: time.Second, Width: 320, Height: 180}
	if got, err := r.Cut(t.Context(), clip, "clip.mp4"); err != nil || got.Picture == 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	clip.Source = writeFile(t, "x.mp4", "noise")
	if got, err := r.Cut(t.Context(), clip, "clip.mp4"); err != nil || got != (Made{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAKilledCutIsNoClip(t *testing.T) {
	source := film(t, "-f", "lavfi", "-i", "testsrc=d=2:s=320x180")
	mediatest.Instead(t, "ffmpeg", `$REAL "$@"; kill -KILL $$`)
	r := Runner{Dir: t.TempDir()}
	if got, err := r.Cut(t.Context(), Clip{Source: source, Demuxer: "mov", Length: time.Second, Width: 320, Height: 180}, "clip.mp4"); !errors.Is(err, ErrMachine) || got != (Made{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCaptionsStandWhereNothingElseDoes(t *testing.T) {
	source := film(t, "-f", "lavfi", "-i", "color=black:d=3:s=640x360")
	for _, top := range []bool{false, true} {
		r := Runner{Dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(r.Dir, "c.srt"), []byte("1\n00:00:00,000 --> 00:00:03,000\nHELLO THERE\nAND GOOD DAY\n\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		clip := Clip{Source: source, Demuxer: "mov", Length: 2 * time.Second, Width: 640, Height: 360, Captions: "c.srt", Top: top}
		if _, err := r.Cut(t.Context(), clip, "clip.mp4"); err != nil {
			t.Fatal(err)
		}
		above, middle, below := white(t, filepath.Join(r.Dir, "clip.mp4"))
		if (above > 100) != top || (below > 100) == top || middle > 0 {
			t.Errorf("captions at the top: %t; white pixels in each third: %d, %d, %d", top, above, middle, below)
		}
	}
}

// white counts the white pixels in each third of the first frame, 640 pixels wide and 360 high.
func white(t *testing.T, path string) (above, middle, below int) {
	t.Helper()
	frame, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-i", path, "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "gray", "-").Output()
	if err != nil || len(frame) != 640*360 {
		t.Fatalf("read a frame: %v, %d bytes", err, len(frame))
	}
	count := func(part []byte) (n int) {
		for _, p := range part {
			if p > 200 {
				n++
			}
		}
		return n
	}
	third := len(frame) / 3
	return count(frame[:third]), count(frame[third : 2*third]), count(frame[2*third:])
}

func TestCaptionsAreNarrowerInANarrowPicture(t *testing.T) {
	for size, want := range map[[2]int]string{{640, 360}: "Fontsize=20.0", {360, 640}: "Fontsize=7.4", {0, 0}: "Fontsize=20.0"} {
		style := Clip{Width: size[0], Height: size[1]}.style()
		if got := style[len("Fontname=DejaVu Sans,"):][:len(want)]; got != want {
			t.Errorf("%v: %s, want %s", size, got, want)
		}
	}
}
