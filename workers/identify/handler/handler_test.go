package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stagefleet/stagefleet/demo/sample"
	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

// canary stands for what was said or shown: it may reach no error.
const canary = "canary-zanzibar"

var script = []sample.Turn{
	{Name: "Walter Bishop", Title: "Bridge Painter", Voice: "rms", Words: "good morning my name is Walter Bishop and I will talk about the bridge"},
	{Name: "Olivia Dunham", Title: "Chief Engineer, Water Department", Voice: "slt", Words: "thank you the water under the bridge is rising every winter"},
	{Name: "Walter Bishop", Title: "Bridge Painter", Voice: "rms", Words: "then we have to build it higher than before"},
	{Name: "Olivia Dunham", Title: "Chief Engineer, Water Department", Voice: "slt", Words: "we can do that in two years"},
}

// films are the recordings that were generated so far, by their script: drawing one takes seconds.
var films = map[string]film{}

type film struct {
	truth    sample.Truth
	mp4, wav []byte
}

func filmOf(t *testing.T, turns []sample.Turn) film {
	t.Helper()
	key := fmt.Sprint(turns)
	if f, ok := films[key]; ok {
		return f
	}
	dir := t.TempDir()
	mp4, wav := filepath.Join(dir, "film.mp4"), filepath.Join(dir, "audio.wav")
	truth, err := sample.Generate(t.Context(), turns, mp4)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-i", mp4, "-ac", "1", "-ar", "16000", wav).CombinedOutput(); err != nil {
		t.Fatalf("make the sound: %v: %s", err, out)
	}
	f := film{truth: truth}
	var err1, err2 error
	f.mp4, err1 = os.ReadFile(mp4)
	f.wav, err2 = os.ReadFile(wav)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	films[key] = f
	return f
}

// recorded is a generated recording as identify gets it, with the words that were really said.
func recorded(t *testing.T, objects *workertest.Objects, turns []sample.Turn) recording.Transcribed {
	t.Helper()
	f := filmOf(t, turns)
	truth, audio := f.truth, objects.Put("jobs/j/audio.wav", f.wav)
	in := recording.Transcribed{V: recording.Version, Engine: "test", Confidence: 1, Media: recording.Media{
		V: recording.Version, Source: objects.Put("jobs/j/source", f.mp4), Name: canary, Demuxer: "mov", Audio: &audio,
		Facts: recording.Facts{DurationMs: truth.DurationMs, HasAudio: true, HasVideo: true, Width: sample.Width, Height: sample.Height},
	}}
	var words []recording.Word
	for _, turn := range truth.Turns {
		in.Media.Speech = append(in.Media.Speech, recording.Span{StartMs: turn.StartMs, EndMs: turn.EndMs})
		said := strings.Fields(strings.ToLower(turn.Words))
		for i, w := range said {
			step := (turn.EndMs - turn.StartMs) / int64(len(said))
			words = append(words, recording.Word{Text: w, StartMs: turn.StartMs + int64(i)*step, EndMs: turn.StartMs + int64(i+1)*step, Confidence: 0.9})
		}
	}
	in.Count = len(words)
	in.Words = objects.Put("jobs/j/words.json", encoded(t, words))
	return in
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func run(t *testing.T, objects *workertest.Objects, in recording.Transcribed, env map[string]string) (worker.Tried[recording.Identified], []recording.Turn) {
	t.Helper()
	got := workertest.Handle(t, New, workertest.Case[recording.Transcribed]{Objects: objects, Input: in, Env: env})
	if err := got.Verdict.Err; err != nil && strings.Contains(err.Error(), canary) {
		t.Fatalf("an error quotes the recording: %v", err)
	}
	if got.Verdict.Kind != outcome.KindDone {
		return got, nil
	}
	if err := got.Output.Validate(); err != nil {
		t.Fatal(err)
	}
	var turns []recording.Turn
	if err := json.Unmarshal(objects.Get(got.Output.Turns), &turns); err != nil || turns == nil {
		t.Fatalf("turns %v: %v", turns, err)
	}
	return got, turns
}

func TestBothSpeakersAreNamedExactly(t *testing.T) {
	objects := workertest.NewObjects(t)
	got, turns := run(t, objects, recorded(t, objects, script), nil)
	want := []recording.Speaker{
		{ID: "s1", Name: "Walter Bishop", Title: "Bridge Painter", Evidence: recording.EvidenceBoth},
		{ID: "s2", Name: "Olivia Dunham", Title: "Chief Engineer, Water Department", Evidence: recording.EvidenceScreen},
	}
	if !slices.Equal(got.Output.Speakers, want) {
		t.Fatalf("got %+v, ended %+v", got.Output.Speakers, got.Verdict)
	}
	var who []string
	for _, turn := range turns {
		who = append(who, turn.Speaker)
	}
	if !slices.Equal(who, []string{"s1", "s2", "s1", "s2"}) {
		t.Fatalf("turns %v", turns)
	}
	if len(got.Output.LowerThirds) != 2 || got.Output.LowerThirds[1].Text != "Olivia Dunham / Chief Engineer, Water Department" {
		t.Fatalf("lower thirds %+v", got.Output.LowerThirds)
	}
	var tools []string
	for _, run := range got.Tools {
		tools = append(tools, run.Tool)
	}
	if slices.Sort(tools); !slices.Equal(tools, []string{"aubiopitch", "ffmpeg", "tesseract"}) {
		t.Errorf("ran %v: one reader for all stills", tools)
	}
}

func TestSoundAloneNamesWhoIntroducesThemselves(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := recorded(t, objects, script)
	in.Media.Facts = recording.Facts{DurationMs: in.Media.Facts.DurationMs, HasAudio: true, StillImage: true}
	got, _ := run(t, objects, in, nil)
	want := []recording.Speaker{
		{ID: "s1", Name: "Walter Bishop", Evidence: recording.EvidenceSpoken},
		{ID: "s2", Evidence: recording.EvidenceUnknown},
	}
	if !slices.Equal(got.Output.Speakers, want) || len(got.Output.LowerThirds) != 0 {
		t.Fatalf("got %+v, ended %+v", got.Output, got.Verdict)
	}
}

func TestNobodySpokeSoNobodyIsSought(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := recording.Transcribed{V: recording.Version, Engine: "none", Words: objects.Put("jobs/j/words.json", []byte("[]")), Media: recording.Media{
		V: recording.Version, Source: objects.Put("jobs/j/source", []byte("x")), Demuxer: "mov",
		Facts: recording.Facts{DurationMs: 600_000, HasVideo: true, Width: 2, Height: 2}}}
	got, turns := run(t, objects, in, nil)
	if got.Verdict.Kind != outcome.KindDone || len(turns) != 0 || len(got.Output.Speakers) != 0 || len(got.Tools) != 0 {
		t.Fatalf("ended %+v with %+v", got.Verdict, got.Output)
	}
}

// asked is a vision model with one answer; it counts the questions.
func asked(t *testing.T, status int, answer string) (map[string]string, *[]string) {
	t.Helper()
	var questions []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		questions = append(questions, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":%q}]}`, answer)
	}))
	t.Cleanup(s.Close)
	return map[string]string{provider.AnthropicKey: "k", provider.AnthropicURL: s.URL}, &questions
}

func TestAVisionModelIsAskedOnceAndOnlyAboutTheUnknown(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := recorded(t, objects, []sample.Turn{
		{Name: "xx", Title: "yy", Voice: "rms", Words: "good morning my name is Walter Bishop and I will talk about the bridge"},
		{Name: "xx", Title: "yy", Voice: "slt", Words: "thank you the water under the bridge is rising every winter"},
	})
	env, questions := asked(t, 200, `{"speakers":[{"id":"s2","name":"Olivia Dunham","title":"Engineer"},{"id":"s1","name":"Somebody Else","title":""},{"id":"s9","name":"Nobody","title":""}]}`)
	got, _ := run(t, objects, in, env)
	want := []recording.Speaker{
		{ID: "s1", Name: "Walter Bishop", Evidence: recording.EvidenceSpoken},
		{ID: "s2", Name: "Olivia Dunham", Title: "Engineer", Evidence: recording.EvidenceVision},
	}
	if !slices.Equal(got.Output.Speakers, want) {
		t.Fatalf("got %+v, ended %+v", got.Output.Speakers, got.Verdict)
	}
	if len(*questions) != 1 || strings.Count((*questions)[0], `"image/jpeg"`) != 1 || !strings.Contains((*questions)[0], "rising every winter") || strings.Contains((*questions)[0], "good morning") {
		t.Fatalf("%d questions", len(*questions))
	}
}

func TestNobodyIsAskedWhenEverybodyIsKnown(t *testing.T) {
	objects := workertest.NewObjects(t)
	env, questions := asked(t, 200, `{"speakers":[]}`)
	got, _ := run(t, objects, recorded(t, objects, script), env)
	if got.Verdict.Kind != outcome.KindDone || len(*questions) != 0 {
		t.Fatalf("ended %+v after %d questions", got.Verdict, len(*questions))
	}
}

func TestAnAnswerThatCannotBeANameLeavesTheSpeakerUnknown(t *testing.T) {
	for name, answer := range map[string]string{
		"empty": "", "blank": "  ", "control characters": "Mary\x00Wilson", "a line break": "Mary\nWilson", "a novel": strings.Repeat("Mary ", 40),
	} {
		c := &cast{names: []recording.Speaker{{ID: "s1", Evidence: recording.EvidenceUnknown}}}
		if err := c.learn(encoded(t, map[string]any{"speakers": []map[string]string{{"id": "s1", "name": answer}}})); err != nil || c.names[0].Name != "" || c.names[0].Evidence != recording.EvidenceUnknown {
			t.Errorf("%s: got %+v, %v", name, c.names, err)
		}
	}
	if err := (&cast{}).learn([]byte(`{"speakers":"` + canary + `"}`)); outcome.Of(err).Kind != outcome.KindRetry || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v", err)
	}
}

func TestAVisionModelThatFailsIsAskedAgainLater(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := recorded(t, objects, []sample.Turn{{Name: "xx", Title: "yy", Voice: "slt", Words: "thank you the water is rising " + "every winter"}})
	env, _ := asked(t, 529, canary)
	if got, _ := run(t, objects, in, env); got.Verdict.Kind != outcome.KindRetry {
		t.Fatalf("ended %+v", got.Verdict)
	}
}

func TestBrokenObjectsEndWithoutQuotingThem(t *testing.T) {
	objects := workertest.NewObjects(t)
	broken := recorded(t, objects, script)
	broken.Words = objects.Put("jobs/j/broken.json", []byte(`[{"text":"`+canary+`"`))
	if got, _ := run(t, objects, broken, nil); got.Verdict.Kind != outcome.KindQuarantine {
		t.Errorf("words that are no JSON: %+v", got.Verdict)
	}
	if got, _ := run(t, objects, recording.Transcribed{V: 7}, nil); got.Verdict.Kind != outcome.KindQuarantine {
		t.Errorf("an unknown shape: %+v", got.Verdict)
	}
}

func TestWhatToolsCannotMakeSenseOfIsAGap(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := recorded(t, objects, script)
	noise := objects.Put("jobs/j/noise", []byte(canary))
	in.Media.Source, in.Media.Audio = noise, &noise
	got, turns := run(t, objects, in, nil)
	if got.Verdict.Kind != outcome.KindDone || len(turns) != 2 || len(got.Gaps) != 2 {
		t.Fatalf("ended %+v with %v and %v", got.Verdict, got.Gaps, turns)
	}
	want := []recording.Speaker{{ID: "s1", Name: "Walter Bishop", Evidence: recording.EvidenceSpoken}, {ID: "s2", Evidence: recording.EvidenceUnknown}}
	if !slices.Equal(got.Output.Speakers, want) {
		t.Fatalf("got %+v", got.Output.Speakers)
	}
}

func TestAToolThatWasKilledIsTriedAgain(t *testing.T) {
	for err, want := range map[error]bool{
		&media.ExitError{Tool: "tesseract", Code: 1}:                           true,
		&media.ExitError{Tool: "tesseract", Code: -1, Signal: syscall.SIGXCPU}: true,
		&media.ExitError{Tool: "tesseract", Code: -1, Signal: syscall.SIGSEGV}: true,
		&media.ExitError{Tool: "tesseract", Code: -1, Signal: syscall.SIGKILL}: false,
		&media.ExitError{Tool: "tesseract", Code: -1, Signal: syscall.SIGTERM}: false,
		media.ErrOutput: true, media.ErrMissing: false, outcome.ErrDraining: false,
	} {
		if got := isSenseless(err); got != want {
			t.Errorf("%v: senseless %v", err, got)
		}
	}
}

func TestNobodyIsAskedAboutAPictureThatIsNotThere(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := recorded(t, objects, []sample.Turn{{Name: "xx", Title: "yy", Voice: "slt", Words: "thank you the water is rising " + "every winter"}})
	whole, short := filepath.Join(t.TempDir(), "whole.mp4"), filepath.Join(t.TempDir(), "short.mp4")
	if err := os.WriteFile(whole, objects.Get(in.Media.Source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-t", "0.2", "-i", whole, "-i", whole, "-map", "0:v", "-map", "1:a", short).CombinedOutput(); err != nil {
		t.Fatalf("shorten the picture: %v: %s", err, out)
	}
	in.Media.Source = objects.PutFile("jobs/j/short", short)
	env, questions := asked(t, 200, `{"speakers":[]}`)
	got, _ := run(t, objects, in, env)
	if got.Verdict.Kind != outcome.KindDone || len(*questions) != 0 || got.Output.Speakers[0].Evidence != recording.EvidenceUnknown {
		t.Fatalf("ended %+v after %d questions", got.Verdict, len(*questions))
	}
}
