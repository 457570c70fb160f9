package handler

import (
	"fmt"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func given(t *testing.T, words []recording.Word, spoken []recording.Turn) task {
	t.Helper()
	store, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := task{Objects: worker.NewObjects(store, "jobs/j/a", t.TempDir(), 0)}
	in.Input.Media.Facts = recording.Facts{DurationMs: 60_000, HasVideo: true, HasAudio: true, Width: 640, Height: 360}
	in.Input.Speakers = cast
	for name, v := range map[string]any{"words.json": words, "turns.json": spoken} {
		obj, err := in.Objects.WriteJSON(t.Context(), name, v)
		if err != nil {
			t.Fatal(err)
		}
		if name == "words.json" {
			in.Input.Words = obj
		} else {
			in.Input.Turns = obj
		}
	}
	return in
}

func TestEverySegmentBecomesOneOrderWithItsOwnCues(t *testing.T) {
	in := given(t, append(speak(1000, "i am john carter"), speak(9000, "who pays for it")...),
		[]recording.Turn{{StartMs: 900, EndMs: 2300, Speaker: "s1"}, {StartMs: 8900, EndMs: 10_300, Speaker: "s2"}})
	in.Input.Segments = []recording.Segment{{StartMs: 850, EndMs: 2350, Speaker: "s1"}, {StartMs: 8850, EndMs: 10_350, Speaker: "s2"}}
	in.Input.LowerThirds = []recording.Banner{{StartMs: 2349, EndMs: 8850, Text: "John Carter"}}
	got, err := handler{}.Handle(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 2 {
		t.Fatalf("%d orders", len(got.Items))
	}
	first, second := got.Items[0], got.Items[1]
	if first.Index != 0 || second.Index != 1 || first.Title != "I am John Carter" || second.Title != "Who pays for it" {
		t.Errorf("orders %d %q and %d %q", first.Index, first.Title, second.Index, second.Title)
	}
	if show(first.Cues) != "150-1500 I am John Carter\n" || show(second.Cues) != "150-1500 Who pays for it\n" {
		t.Errorf("cues %s%s", show(first.Cues), show(second.Cues))
	}
	// A banner that overlaps by a millisecond counts, one that ends where the segment begins does not.
	if !first.CaptionsTop || second.CaptionsTop {
		t.Errorf("captions at the top: %t and %t", first.CaptionsTop, second.CaptionsTop)
	}
	if want := "John Carter: I am John Carter. Who pays for it."; got.Head.Summary != want {
		t.Errorf("summary %q, want %q", got.Head.Summary, want)
	}
}

func TestARecordingWithoutWordsStillHasItsFiles(t *testing.T) {
	in := given(t, nil, nil)
	in.Input.Speakers = nil
	in.Input.Segments = []recording.Segment{{EndMs: 6000}}
	got, err := handler{}.Handle(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got.Head.Title != noSpeechTitle || got.Head.Summary != noSpeech || len(got.Items) != 1 || got.Items[0].Cues == nil {
		t.Errorf("head %q, %q, orders %+v", got.Head.Title, got.Head.Summary, got.Items)
	}
	var transcript recording.Transcript
	if err := in.Objects.ReadJSON(t.Context(), got.Head.Transcript, &transcript); err != nil || transcript.Turns == nil || len(transcript.Turns) != 0 {
		t.Errorf("transcript %+v, %v", transcript, err)
	}
}

func TestNoSegmentsMeanNoOrders(t *testing.T) {
	got, err := handler{}.Handle(t.Context(), given(t, speak(0, "a word"), []recording.Turn{{EndMs: 600, Speaker: "s1"}}))
	if err != nil || len(got.Items) != 0 {
		t.Errorf("%d orders, %v", len(got.Items), err)
	}
}

func TestSoundWithoutAPictureIsOrderedWithItsStill(t *testing.T) {
	in := given(t, speak(0, "a word"), []recording.Turn{{EndMs: 600, Speaker: "s1"}})
	in.Input.Media.Facts = recording.Facts{DurationMs: 60_000, HasAudio: true, StillImage: true}
	in.Input.Media.Posters = []recording.Object{{Key: "still.jpg"}}
	in.Input.Segments = []recording.Segment{{EndMs: 6000, Speaker: "s1"}}
	got, err := handler{}.Handle(t.Context(), in)
	if err != nil || got.Items[0].Still == nil || got.Items[0].Still.Key != "still.jpg" {
		t.Errorf("orders %s, %v", fmt.Sprint(got.Items), err)
	}
}
