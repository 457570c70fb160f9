package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
)

type model func(provider.Question) (json.RawMessage, error)

func (m model) Answer(_ context.Context, q provider.Question) (json.RawMessage, error) { return m(q) }

// given is a recording in which two people speak for six seconds each.
func given(t *testing.T) worker.Task[recording.Identified] {
	t.Helper()
	store, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := worker.Task[recording.Identified]{Objects: worker.NewObjects(store, "jobs/j/a", t.TempDir(), 0)}
	in.Input.Media.Facts = recording.Facts{DurationMs: 20_000, HasVideo: true, HasAudio: true}
	a, b := speak(1000, strings.Repeat("river bridge ", 10)), speak(9000, strings.Repeat("council money ", 10))
	if in.Input.Words, err = in.Objects.WriteJSON(t.Context(), "words.json", append(a, b...)); err != nil {
		t.Fatal(err)
	}
	if in.Input.Turns, err = in.Objects.WriteJSON(t.Context(), "turns.json", []recording.Turn{turnOf(a, "s1"), turnOf(b, "s2")}); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestTheScorerChoosesWhereNoModelDoes(t *testing.T) {
	for name, language := range map[string]provider.Language{
		"offline":        provider.Declining{},
		"useless answer": model(func(provider.Question) (json.RawMessage, error) { return json.RawMessage(`{"picks":[]}`), nil }),
	} {
		got, err := handler{language}.Handle(t.Context(), given(t))
		if err != nil || len(got.Segments) != 2 || got.Segments[0].StartMs != 850 || got.Segments[0].EndMs != 7150 || got.Segments[1].Speaker != "s2" {
			t.Errorf("%s: %+v, %v", name, got.Segments, err)
		}
	}
}

func TestAModelChoosesFromTheNumberedPassages(t *testing.T) {
	var asked provider.Question
	got, err := handler{model(func(q provider.Question) (json.RawMessage, error) {
		asked = q
		return json.RawMessage(`{"picks":[{"passage":1,"score":0.9}]}`), nil
	})}.Handle(t.Context(), given(t))
	if err != nil || len(got.Segments) != 1 || got.Segments[0].Speaker != "s2" || got.Segments[0].Score != 0.9 {
		t.Errorf("%+v, %v", got.Segments, err)
	}
	if !strings.Contains(asked.Input, "0. [1 s, speaker s1] river bridge") || strings.Contains(asked.Instructions, "river") {
		t.Errorf("asked %+v", asked)
	}
}

func TestAModelChoosesOnlyAmongWhatItWasShown(t *testing.T) {
	in := given(t)
	var words []recording.Word
	var turns []recording.Turn
	for i := range int64(maxInput / 200) {
		said := speak(1000+8000*i, strings.Repeat("riverside bridge ", 20))
		words, turns = append(words, said...), append(turns, turnOf(said, "s1"))
	}
	var err error
	if in.Input.Words, err = in.Objects.WriteJSON(t.Context(), "many.json", words); err != nil {
		t.Fatal(err)
	}
	if in.Input.Turns, err = in.Objects.WriteJSON(t.Context(), "long.json", turns); err != nil {
		t.Fatal(err)
	}
	in.Input.Media.Facts.DurationMs = turns[len(turns)-1].EndMs + 1000
	last := len(turns) - 1
	got, err := handler{model(func(provider.Question) (json.RawMessage, error) {
		return json.RawMessage(fmt.Sprintf(`{"picks":[{"passage":%d,"score":1},{"passage":3,"score":7}]}`, last)), nil
	})}.Handle(t.Context(), in)
	if err != nil || len(got.Segments) != 1 || got.Segments[0].StartMs > 1000+8000*4 || got.Segments[0].Score != 1 {
		t.Errorf("%+v, %v", got.Segments, err)
	}
}

func TestAWordThatLastsForMinutesMakesNoClip(t *testing.T) {
	endless := []recording.Word{{Text: "you", StartMs: 0, EndMs: 600_000, Confidence: 1}}
	if got := passages(endless, []recording.Turn{turnOf(endless, "s1")}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAFailingModelFailsTheAttempt(t *testing.T) {
	ill := errors.New("ill")
	_, err := handler{model(func(provider.Question) (json.RawMessage, error) { return nil, ill })}.Handle(t.Context(), given(t))
	if !errors.Is(err, ill) {
		t.Errorf("error %v", err)
	}
}

func TestSilenceGivesNoClips(t *testing.T) {
	in := given(t)
	var err error
	if in.Input.Words, err = in.Objects.WriteJSON(t.Context(), "none.json", []recording.Word{}); err != nil {
		t.Fatal(err)
	}
	got, err := handler{provider.Declining{}}.Handle(t.Context(), in)
	if err != nil || len(got.Segments) != 0 || got.Segments == nil {
		t.Errorf("%+v, %v", got.Segments, err)
	}
}

func TestNoSoundGivesSpreadClipsAndAGap(t *testing.T) {
	objects := workertest.NewObjects(t)
	none := objects.Put("none.json", []byte("[]"))
	in := recording.Identified{V: recording.Version, Turns: none}
	in.Transcribed = recording.Transcribed{V: recording.Version, Words: none, Engine: "none"}
	in.Media = recording.Media{V: recording.Version, Source: none, Demuxer: "mov", Facts: recording.Facts{DurationMs: 60_000, HasVideo: true, Width: 640, Height: 360}}
	got := workertest.Handle(t, New, workertest.Case[recording.Identified]{Input: in, Objects: objects})
	if got.Verdict.Kind != outcome.KindDone || len(got.Output.Segments) != 3 || len(got.Gaps) != 1 || got.Gaps[0].Code != GapUnranked {
		t.Errorf("%+v, gaps %+v, verdict %+v", got.Output.Segments, got.Gaps, got.Verdict)
	}
}
