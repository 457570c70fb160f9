package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// The offline recogniser hears a third to three quarters of the drawn words and most of the plain ones around them; of
// words that were not said, none.
const (
	leastRecallOfDrawn = 0.2
	leastRecall        = 0.5
)

// manifest is what the tests read of a result's manifest.json.
type manifest struct {
	Speakers []struct{ Name, Title string }
	Clips    []struct {
		File       string
		DurationMs int64
		Cues       []struct{ Lines []string }
	}
	Files []struct {
		Path, SHA256 string
		Bytes        int64
	}
}

// result reads a job's manifest and checks every file that it lists.
func result(t *testing.T, j job.Job) manifest {
	t.Helper()
	if j.Result == nil {
		t.Fatalf("the job has no result:\n%s", describe(j))
	}
	var m manifest
	text, err := os.ReadFile(j.Result.Manifest)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatalf("read the manifest: %v", err)
	}
	for _, file := range m.Files {
		content, err := os.ReadFile(filepath.Join(j.Result.Dir, file.Path))
		if err != nil {
			t.Error(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != file.SHA256 || int64(len(content)) != file.Bytes {
			t.Errorf("%s is not what the manifest says", file.Path)
		}
	}
	return m
}

// eachClipOnce checks that every part was published by one execution and stands in the result once.
func eachClipOnce(t *testing.T, j job.Job, m manifest) {
	t.Helper()
	parts := 0
	for _, s := range j.Steps {
		done := 0
		for _, a := range s.History {
			if a.Outcome == "done" {
				done++
			}
		}
		if s.State != job.Completed || done != 1 {
			t.Errorf("step %s of %s is %s after %d successes", s.ID, s.Stage, s.State, done)
		}
		if s.Stage == "compile" {
			parts++
		}
	}
	var files []string
	for _, c := range m.Clips {
		files = append(files, c.File)
	}
	slices.Sort(files)
	if len(files) == 0 || len(files) != parts || len(slices.Compact(files)) != parts {
		t.Errorf("%d parts, clips %v", parts, files)
	}
}

func TestARecordingBecomesCaptionedClips(t *testing.T) {
	t.Parallel()
	r := drawn(t)
	f := up(t, t.TempDir())
	stdout, code := f.command("submit", r.file, "--wait", "--target", "the talk")
	if code != 0 || !strings.Contains(stdout, "completed after") {
		t.Fatalf("submit --wait = %d\n%s", code, stdout)
	}
	page, err := f.Jobs(t.Context(), job.Filter{Target: "the talk"})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("jobs = %v, %v", page.Jobs, err)
	}
	j, err := f.Job(t.Context(), page.Jobs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if j.State != job.Completed || !j.Current || !strings.Contains(stdout, j.Result.Index) {
		t.Errorf("%s\n%s", stdout, describe(j))
	}
	for _, s := range j.Steps {
		if s.Attempts != 1 || s.Crashes != 0 {
			t.Errorf("%s took %d attempts and %d crashes", s.Stage, s.Attempts, s.Crashes)
		}
	}
	m := result(t, j)
	eachClipOnce(t, j, m)
	var names []string
	for _, s := range m.Speakers {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, r.truth.Names()) {
		t.Errorf("speakers = %q, want %q", names, r.truth.Names())
	}
	var cues strings.Builder
	for _, c := range m.Clips {
		if c.DurationMs <= 0 || len(c.Cues) == 0 {
			t.Errorf("%s: %d ms, %d cues", c.File, c.DurationMs, len(c.Cues))
		}
		for _, cue := range c.Cues {
			cues.WriteString(strings.Join(cue.Lines, " ") + " ")
		}
	}
	transcript, err := os.ReadFile(filepath.Join(j.Result.Dir, "transcript.srt"))
	if err != nil {
		t.Fatal(err)
	}
	drawnRecall, allRecall := recall(r.verbs, string(transcript)), recall(r.truth.Words(), string(transcript))
	t.Logf("recall of the drawn words %.2f, of all words %.2f", drawnRecall, allRecall)
	if drawnRecall < leastRecallOfDrawn || allRecall < leastRecall {
		t.Errorf("said:  %s\nheard: %s", r.truth.Words(), transcript)
	}
	if recall(cues.String(), string(transcript)) < 0.9 {
		t.Errorf("cues that nobody said: %s", cues.String())
	}
	f.deadLetters()
	f.stop()
}
