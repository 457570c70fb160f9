package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// burned is a result of two clips: captions at the bottom, and at the top above a lower third.
func burned(t *testing.T, cues []recording.Cue) result {
	t.Helper()
	r := result{folder: t.TempDir()}
	film := filepath.Join(t.TempDir(), "film.mp4")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i",
		"color=c=0x14324f:s=640x360:d=4,drawbox=x=0:y=274:w=iw:h=70:color=black@0.75:t=fill,drawtext=font=DejaVu Sans:text=Mary Wilson:fontsize=24:fontcolor=white:x=40:y=284",
		film).CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(r.folder, "c.srt"), []byte(recording.SRT(cues)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.manifest.Clips = make([]madeClip, 2)
	for i, name := range []string{"low.mp4", "high.mp4"} {
		clip := media.Clip{Source: film, Demuxer: "mov", Length: 4 * time.Second, Width: 640, Height: 360, Captions: "c.srt", Top: i == 1}
		if _, err := (media.Runner{Dir: r.folder}).Cut(t.Context(), clip, name); err != nil {
			t.Fatal(err)
		}
		r.manifest.Clips[i] = madeClip{File: name, Cues: cues}
	}
	return r
}

func TestBurnedCaptionsAreReadBackFromTopAndBottom(t *testing.T) {
	cues := []recording.Cue{
		{StartMs: 0, EndMs: 2000, Lines: []string{"The council will vote about", "the money for the bridge"}},
		{StartMs: 2000, EndMs: 4000, Lines: []string{"in October of next year"}},
	}
	r := burned(t, cues)
	got, err := readCaptions(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	// At the bottom the banner's words stand among the caption's, so only the clip at the top is clean.
	if least, bad := got[2:].worst(); len(got) != 4 || bad != 0 || least < 0.9 {
		t.Errorf("%d cues, %d bad, the worst %.2f: %+v", len(got), bad, least, got)
	}
	if top := got[:2].atTop(); top != 0 {
		t.Errorf("%d captions of the first clip were read at the top", top)
	}
	if top := got[2:].atTop(); top != 2 {
		t.Errorf("%d captions of the second clip were read at the top, want 2", top)
	}
}

func TestACaptionThatIsNotItsCueIsNoticed(t *testing.T) {
	r := burned(t, []recording.Cue{{StartMs: 0, EndMs: 4000, Lines: []string{"The council will vote about"}}})
	for i := range r.manifest.Clips {
		r.manifest.Clips[i].Cues = []recording.Cue{{StartMs: 0, EndMs: 4000, Lines: []string{"Nobody pays for any of this"}}}
	}
	got, err := readCaptions(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, bad := got.worst(); bad != 2 {
		t.Errorf("%d of 2 are unlike their cue: %+v", bad, got)
	}
}
