package handler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// given assembles a recording that two people spoke in, without clips yet.
func given(t *testing.T) (task, string) {
	t.Helper()
	root, dir := t.TempDir(), t.TempDir()
	store, err := blob.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	in := task{Dir: dir, Job: "j1", Target: "hearing", Version: 3, Part: -1, Attempt: 1, Objects: worker.NewObjects(store, "jobs/j1/a7", dir, 0)}
	earlier := worker.NewObjects(store, "jobs/j1/a1", dir, 0)
	keep := func(name string, v any) recording.Object {
		obj, err := earlier.WriteJSON(t.Context(), name, v)
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	transcript := recording.Transcript{V: recording.Version, Turns: []recording.Said{
		{Turn: recording.Turn{StartMs: 61_000, EndMs: 65_000, Speaker: "s1"}, Text: "<script>alert(1)</script> & so on"},
		{Turn: recording.Turn{StartMs: 66_000, EndMs: 69_000, Speaker: "s2"}, Text: "good day"},
	}}
	head := recording.Captioned{V: recording.Version, Title: `The "bridge" <b>`, Summary: "Quite short.",
		SRT: keep("captions.srt", ""), VTT: keep("captions.vtt", ""), Transcript: keep("words.json", transcript)}
	head.Media = recording.Media{V: recording.Version, Name: `../"><img src=x onerror=alert(2)>.mp4`, Demuxer: "mov",
		Source: keep("source", 1), Facts: recording.Facts{DurationMs: 70_000, HasVideo: true, HasAudio: true, Width: 640, Height: 360},
		Posters: []recording.Object{keep("poster1.jpg", 1), keep("poster2.jpg", 2)}}
	head.Words, head.Turns, head.Engine, head.Count, head.Confidence = keep("w.json", 1), keep("t.json", 1), "pocketsphinx-en-us", 8, 0.81
	head.Speakers = []recording.Speaker{
		{ID: "s1", Name: "John Carter", Title: "Director", Evidence: recording.EvidenceBoth}, {ID: "s2", Evidence: recording.EvidenceUnknown},
	}
	in.Input = recording.Assembly{V: recording.Version, Head: head, Parts: []recording.Clip{}}
	return in, filepath.Join(root, "jobs/j1/a7")
}

func withClips(t *testing.T, in *task, n int) {
	t.Helper()
	film := filepath.Join(t.TempDir(), "clip.mp4")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=d=1:s=320x180",
		"-f", "lavfi", "-i", "sine=d=1", film).CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v: %s", err, out)
	}
	video, err := in.Objects.Put(t.Context(), "made.mp4", film)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		in.Input.Parts = append(in.Input.Parts, recording.Clip{V: recording.Version, Index: i, Title: "so on", Video: &video, DurationMs: 1000,
			Segment: recording.Segment{StartMs: 61_000, EndMs: 62_000, Speaker: "s1"}, Cues: []recording.Cue{{EndMs: 900, Lines: []string{"so on"}}}})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func publish(t *testing.T, in task, dir string) (recording.Result, Manifest, string) {
	t.Helper()
	h, err := New(worker.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Handle(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	var m Manifest
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "manifest.json"))), &m); err != nil {
		t.Fatal(err)
	}
	return got, m, read(t, filepath.Join(dir, "index.html"))
}

func TestTheFolderHoldsWhatManifestAndPageName(t *testing.T) {
	in, dir := given(t)
	withClips(t, &in, 2)
	got, m, html := publish(t, in, dir)
	if got.Clips != 2 || got.Manifest.Key != "jobs/j1/a7/manifest.json" || got.Index.Key != "jobs/j1/a7/index.html" {
		t.Errorf("result %+v", got)
	}
	listed := map[string]bool{"manifest.json": true}
	for _, f := range m.Files {
		listed[f.Path] = true
		sum := sha256.Sum256([]byte(read(t, filepath.Join(dir, f.Path))))
		if hex.EncodeToString(sum[:]) != f.SHA256 || f.Type == "" {
			t.Errorf("%+v has the sum %x", f, sum)
		}
	}
	for _, want := range []string{"clips/clip-01.mp4", "clips/clip-02.mp4", "posters/poster-01.jpg", "posters/poster-02.jpg", "transcript.json",
		"transcript.srt", "transcript.vtt", "speakers.json", "summary.txt", "index.html"} {
		if !listed[want] {
			t.Errorf("the manifest lacks %s", want)
		}
	}
	for _, ref := range regexp.MustCompile(`(?:src|href)="([^"#]*)`).FindAllStringSubmatch(html, -1) {
		if !listed[ref[1]] {
			t.Errorf("the page refers to %q, which is not in the folder", ref[1])
		}
	}
	if n := strings.Count(html, "<video "); n != 2 {
		t.Errorf("the page plays %d clips", n)
	}
}

func TestTheManifestStatesWhatFfprobeSawAndWhoIsWho(t *testing.T) {
	in, dir := given(t)
	withClips(t, &in, 1)
	_, m, _ := publish(t, in, dir)
	c := m.Clips[0]
	if c.Width != 320 || c.Height != 180 || c.VideoCodec != "h264" || c.AudioCodec != "aac" || c.DurationMs < 950 || c.DurationMs > 1100 || len(c.Cues) != 1 {
		t.Errorf("clip %+v", c)
	}
	if m.Job != "j1" || m.Target != "hearing" || m.Version != 3 || m.Recording.SHA256 != in.Input.Head.Media.Source.SHA256 || m.Tools["ffmpeg"] == "" {
		t.Errorf("manifest %+v", m)
	}
	if len(m.Speakers) != 2 || m.Speakers[0].Name != "John Carter" {
		t.Errorf("speakers %+v", m.Speakers)
	}
}

func TestWhatTheSubmitterWroteIsTextOnThePage(t *testing.T) {
	in, dir := given(t)
	_, _, html := publish(t, in, dir)
	for _, bad := range []string{"<script", "<img src=x", "<b>;", `The "bridge" <b>`} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, good := range []string{"&lt;script&gt;alert(1)&lt;/script&gt; &amp; so on", "<dt>1:01</dt>", "<b>John Carter:</b>", "<b>Speaker 2:</b>", "name unknown"} {
		if !strings.Contains(html, good) {
			t.Errorf("the page lacks %q", good)
		}
	}
}

func TestGapsAndTheAbsenceOfClipsAreSaid(t *testing.T) {
	in, dir := given(t)
	in.Input.Head.Count = 0
	in.Gaps = []outcome.Gap{{Code: "no_audio", Sentence: "The recording has no sound."}}
	got, m, html := publish(t, in, dir)
	if got.Clips != 0 || len(m.Gaps) != 1 || m.Gaps[0].Code != "no_audio" || m.Clips == nil {
		t.Errorf("result %+v, gaps %+v", got, m.Gaps)
	}
	for _, want := range []string{"This result has gaps", "The recording has no sound.", "There are no clips, because no speech was recognised"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(html, "<video") {
		t.Error("the page plays something")
	}
}

func TestAClipThatCouldNotBeMadeLeavesItsPlaceEmpty(t *testing.T) {
	in, dir := given(t)
	withClips(t, &in, 3)
	in.Input.Parts[1].Video, in.Input.Parts[1].DurationMs = nil, 0
	in.Gaps = []outcome.Gap{{Code: "clip_unmade", Sentence: "Clip 2 could not be made."}}
	got, m, html := publish(t, in, dir)
	if got.Clips != 2 || m.Clips[0].File != "clips/clip-01.mp4" || m.Clips[1].File != "clips/clip-03.mp4" || len(m.Gaps) != 1 {
		t.Errorf("result %+v, clips %+v, gaps %+v", got, m.Clips, m.Gaps)
	}
	if strings.Count(html, "<video ") != 2 || !strings.Contains(html, "Clip 2 could not be made.") || strings.Contains(html, "There are no clips") {
		t.Error("the page does not show two clips and why the third is missing")
	}
}

func TestThatNoClipCouldBeMadeIsSaid(t *testing.T) {
	in, dir := given(t)
	withClips(t, &in, 1)
	in.Input.Parts[0].Video, in.Input.Parts[0].DurationMs = nil, 0
	got, _, html := publish(t, in, dir)
	if got.Clips != 0 || !strings.Contains(html, "none of those chosen could be made") {
		t.Errorf("result %+v, and the page does not say why", got)
	}
}

func TestToolVersionsAreAskedAgainWhenTheFirstAskWasCut(t *testing.T) {
	h := &handler{}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	tools := media.Runner{Dir: t.TempDir()}
	if got := h.versions(cut, tools); len(got) != 0 {
		t.Fatalf("a cut ask found %v", got)
	}
	if got := h.versions(t.Context(), tools); got["ffmpeg"] == "" {
		t.Fatalf("the next ask found %v", got)
	}
}
