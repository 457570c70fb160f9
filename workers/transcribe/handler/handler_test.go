package handler

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media/mediatest"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

// canary stands for what was said: it may reach the words, and nothing else.
const canary = "canary-zanzibar"

// given is an input whose sound has the given length and, if it is to be heard, one stretch of speech.
func given(objects *workertest.Objects, wav []byte, durationMs int64, speech bool) recording.Media {
	audio := objects.Put("jobs/j/a/audio.wav", wav)
	m := recording.Media{V: recording.Version, Source: objects.Put("jobs/j/source", []byte("x")), Name: canary, Demuxer: "mov", Audio: &audio,
		Facts: recording.Facts{DurationMs: durationMs, HasAudio: true, StillImage: true}}
	if speech {
		m.Speech = []recording.Span{{StartMs: 0, EndMs: durationMs}}
	}
	return m
}

func run(t *testing.T, objects *workertest.Objects, in recording.Media, env map[string]string) (worker.Tried[recording.Transcribed], []recording.Word) {
	t.Helper()
	got := workertest.Handle(t, New, workertest.Case[recording.Media]{Objects: objects, Input: in, Env: env})
	if err := got.Verdict.Err; err != nil && strings.Contains(err.Error(), canary) {
		t.Fatalf("an error quotes what was said: %v", err)
	}
	if got.Verdict.Kind != outcome.KindDone {
		return got, nil
	}
	if err := got.Output.Validate(); err != nil {
		t.Fatal(err)
	}
	var words []recording.Word
	if err := json.Unmarshal(objects.Get(got.Output.Words), &words); err != nil || words == nil {
		t.Fatalf("words %v: %v", words, err)
	}
	return got, words
}

func TestClearSpeechIsHeardOffline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.wav")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i",
		"flite=text='good morning my name is john carter and we talk about the river bridge':voice=rms", "-ar", "16000", "-ac", "1", path).CombinedOutput(); err != nil {
		t.Fatalf("make speech: %v: %s", err, out)
	}
	wav, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	objects := workertest.NewObjects(t)
	got, words := run(t, objects, given(objects, wav, 6000, true), nil)
	if got.Output.Engine != provider.EnginePocketsphinx || got.Output.Count != len(words) || got.Output.Confidence <= 0 {
		t.Fatalf("got %+v, ended %+v", got.Output, got.Verdict)
	}
	var heard []string
	last := int64(-1)
	for _, w := range words {
		heard = append(heard, w.Text)
		if w.StartMs < last || w.EndMs <= w.StartMs || w.EndMs > 6000 {
			t.Errorf("%+v after %d", w, last)
		}
		last = w.StartMs
	}
	for _, want := range []string{"morning", "john", "carter", "river"} {
		if !slices.Contains(heard, want) {
			t.Errorf("%q is missing in %v", want, heard)
		}
	}
	if len(got.Tools) != 1 || got.Tools[0].Tool != "pocketsphinx_continuous" {
		t.Errorf("ran %+v", got.Tools)
	}
}

func TestARecordingThatTakesTooMuchIsRefusedAndNotTriedAgain(t *testing.T) {
	mediatest.Instead(t, "pocketsphinx_continuous", "kill -XCPU $$; sleep 9")
	objects := workertest.NewObjects(t)
	got, _ := run(t, objects, given(objects, []byte("the sound"), 2000, true), nil)
	if got.Verdict.Kind != outcome.KindReject || got.Verdict.Reason != "too_costly" {
		t.Fatalf("ended %+v", got.Verdict)
	}
}

func TestSilenceAndMissingSoundCostNothing(t *testing.T) {
	objects := workertest.NewObjects(t)
	silent := given(objects, []byte("not even a WAV file"), 600_000, false)
	mute := silent
	mute.Audio, mute.Facts = nil, recording.Facts{DurationMs: 600_000, HasVideo: true, Width: 2, Height: 2}
	for name, in := range map[string]recording.Media{"silence": silent, "no sound": mute} {
		got, words := run(t, objects, in, nil)
		if got.Verdict.Kind != outcome.KindDone || len(words) != 0 || got.Output.Engine != noEngine || len(got.Tools) != 0 {
			t.Errorf("%s: ended %+v with %+v", name, got.Verdict, got.Output)
		}
	}
}

// server answers every upload with a status and a body.
func server(t *testing.T, status int, body string) (map[string]string, *[]byte) {
	t.Helper()
	var uploaded []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if file, _, err := r.FormFile("file"); err == nil {
			uploaded, _ = io.ReadAll(file)
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return map[string]string{provider.SpeechURL: s.URL, provider.SpeechKey: "k"}, &uploaded
}

func TestAProviderIsAskedWhenTheEnvironmentNamesOne(t *testing.T) {
	objects := workertest.NewObjects(t)
	env, uploaded := server(t, http.StatusOK, `{"text":"x","words":[{"word":"`+canary+`","start":0.5,"end":1},{"word":"late","start":9,"end":9.5},{"word":"first","start":0,"end":0.5}]}`)
	got, words := run(t, objects, given(objects, []byte("the sound"), 2000, true), env)
	want := []recording.Word{{Text: "first", EndMs: 500}, {Text: canary, StartMs: 500, EndMs: 1000}}
	if !slices.Equal(words, want) || got.Output.Count != 2 || got.Output.Engine != provider.DefaultSpeechModel || string(*uploaded) != "the sound" {
		t.Fatalf("got %+v and %v, ended %+v", got.Output, words, got.Verdict)
	}
	if len(got.Tools) != 0 {
		t.Errorf("ran %v", got.Tools)
	}
}

func TestAProvidersRefusalKeepsItsMeaning(t *testing.T) {
	objects := workertest.NewObjects(t)
	in := given(objects, []byte("x"), 2000, true)
	env, _ := server(t, http.StatusTooManyRequests, `{"error":{"message":"`+canary+`","code":"rate_limit_exceeded"}}`)
	got, _ := run(t, objects, in, env)
	if got.Verdict.Kind != outcome.KindRetry || got.Verdict.After != 7*time.Second {
		t.Fatalf("ended %+v", got.Verdict)
	}
}

func TestAnAddressThatCannotWorkStopsTheProcess(t *testing.T) {
	_, err := New(worker.Deps{Getenv: func(k string) string { return map[string]string{provider.SpeechURL: "ftp://x"}[k] }})
	if err == nil || !strings.Contains(err.Error(), provider.SpeechURL) {
		t.Fatalf("got %v", err)
	}
}

func TestAnInputThatIsNotOursIsQuarantined(t *testing.T) {
	got := workertest.Handle(t, New, workertest.Case[recording.Media]{Input: recording.Media{V: 1}})
	if got.Verdict.Kind != outcome.KindQuarantine {
		t.Fatalf("ended %+v", got.Verdict)
	}
}
