package handler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/recording"
	"pgregory.net/rapid"
)

// speak lays text on the time line, 300 ms a word, from a start.
func speak(start int64, text string) []recording.Word {
	var words []recording.Word
	for i, w := range strings.Fields(text) {
		at := start + int64(i)*300
		words = append(words, recording.Word{Text: w, StartMs: at, EndMs: at + 300, Confidence: 0.9})
	}
	return words
}

func turnOf(words []recording.Word, speaker string) recording.Turn {
	return recording.Turn{StartMs: words[0].StartMs, EndMs: words[len(words)-1].EndMs, Speaker: speaker}
}

func TestATurnIsOnePassageWithItsSpeakerAndAllItsWords(t *testing.T) {
	a, b := speak(1000, "the bridge is old and must be repaired soon"), speak(9000, "who pays for the repair of it then")
	found := passages(append(a, b...), []recording.Turn{turnOf(a, "s1"), turnOf(b, "s2")})
	if len(found) != 2 || found[0].speaker != "s1" || found[1].speaker != "s2" || len(found[0].words) != 9 || len(found[1].words) != 8 {
		t.Fatalf("passages %+v", found)
	}
	if found[0].StartMs != 1000 || found[0].EndMs != 1000+9*300 {
		t.Errorf("the first spans %d to %d", found[0].StartMs, found[0].EndMs)
	}
}

func TestATurnTooShortForAClipIsNoPassage(t *testing.T) {
	for n, want := range map[int]int{6: 0, 7: 1} { // 1.8 s and 2.1 s
		words := speak(0, strings.Repeat("word ", n))
		if got := passages(words, []recording.Turn{turnOf(words, "s1")}); len(got) != want {
			t.Errorf("%d words of 300 ms give %d passages, want %d", n, len(got), want)
		}
	}
}

func TestAMonologueIsCutAtItsPauses(t *testing.T) {
	words := append(speak(0, strings.Repeat("before ", 60)), speak(18_600, strings.Repeat("after ", 60))...)
	found := passages(words, []recording.Turn{turnOf(words, "s1")})
	if len(found) != 2 || found[0].EndMs != 18_000 || found[1].StartMs != 18_600 {
		t.Fatalf("passages %+v, want a cut at the pause from 18.0 to 18.6 s", found)
	}
}

func TestThePassageWithTheCommonTermsWinsAndIsNotChosenTwiceOver(t *testing.T) {
	said := []string{
		"the bridge and the river need a new bridge this year",
		"a bridge across the river is a good bridge for everyone",
		"my cousin bought several yellow umbrellas somewhere else yesterday evening",
		"the council money pays the council budget with council money",
	}
	var words []recording.Word
	var turns []recording.Turn
	for i, text := range said {
		w := speak(int64(i)*10_000, text)
		words, turns = append(words, w...), append(turns, turnOf(w, "s1"))
	}
	picked := choose(passages(words, turns), 2)
	if len(picked) != 2 {
		t.Fatalf("%d picks, want 2", len(picked))
	}
	// Two passages share the commonest term, so one of them is first; the second pick has another subject.
	if picked[0].StartMs > 10_000 || picked[1].StartMs != 30_000 {
		t.Errorf("picked %d ms, then %d ms", picked[0].StartMs, picked[1].StartMs)
	}
}

func TestABadlyRecognisedPassageLosesAgainstTheSameWordsHeardWell(t *testing.T) {
	poor, good := speak(0, "the bridge crosses the river near town today"), speak(10_000, "the bridge crosses the river near town today")
	for i := range poor {
		poor[i].Confidence = 0.2
	}
	picked := choose(passages(append(poor, good...), []recording.Turn{turnOf(poor, "s1"), turnOf(good, "s1")}), 1)
	if picked[0].StartMs != 10_000 {
		t.Errorf("picked the passage at %d ms", picked[0].StartMs)
	}
}

func TestWordsWithoutMeaningStillGiveAClip(t *testing.T) {
	words := speak(0, "it is what it is and so on it is")
	got := segments(choose(passages(words, []recording.Turn{turnOf(words, "s1")}), 3), 60_000)
	if len(got) != 1 || got[0].Score != 0 {
		t.Errorf("segments %+v, want one with score 0", got)
	}
}

func TestSegmentsLieInTheRecordingInOrderWithoutOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words []recording.Word
		var turns []recording.Turn
		at := int64(0)
		for i := range rapid.IntRange(0, 12).Draw(t, "turns") {
			at += rapid.Int64Range(0, 900).Draw(t, "pause")
			var said []recording.Word
			for range rapid.IntRange(1, 200).Draw(t, "words") {
				length := rapid.Int64Range(10, 900).Draw(t, "length")
				text := rapid.SampledFrom([]string{"river", "bridge", "the", "", "(2)", "council"}).Draw(t, "text")
				said = append(said, recording.Word{Text: text, StartMs: at, EndMs: at + length, Confidence: rapid.Float64Range(0, 1).Draw(t, "sure")})
				at += length
			}
			words, turns = append(words, said...), append(turns, turnOf(said, fmt.Sprint("s", i%2)))
		}
		duration := max(1, at-rapid.Int64Range(-500, 500).Draw(t, "shorter"))
		candidates := passages(words, turns)
		got := segments(choose(candidates, wanted(duration)), duration)
		end := int64(0)
		for _, s := range got {
			if s.StartMs < end || s.EndMs > duration || s.EndMs-s.StartMs < shortest || s.EndMs-s.StartMs > longest {
				t.Fatalf("segment %d to %d after %d in %d ms", s.StartMs, s.EndMs, end, duration)
			}
			end = s.EndMs
		}
		if len(got) > most || (len(candidates) >= fewest+2 && len(got) < fewest) {
			t.Fatalf("%d segments from %d candidates", len(got), len(candidates))
		}
	})
}

func TestClipsAreSpreadOverARecordingWithoutSound(t *testing.T) {
	for _, c := range []struct {
		duration int64
		want     []recording.Segment
	}{
		{1, []recording.Segment{{EndMs: 1}}},
		{6_000, []recording.Segment{{EndMs: 6_000}}},
		{11_999, []recording.Segment{{StartMs: 2_999, EndMs: 8_999}}},
		{18_000, []recording.Segment{{EndMs: 6_000}, {StartMs: 6_000, EndMs: 12_000}, {StartMs: 12_000, EndMs: 18_000}}},
		{60_000, []recording.Segment{{StartMs: 7_000, EndMs: 13_000}, {StartMs: 27_000, EndMs: 33_000}, {StartMs: 47_000, EndMs: 53_000}}},
	} {
		if got := spread(c.duration); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d ms: %v, want %v", c.duration, got, c.want)
		}
	}
}

func TestOnlyWhatExistsIsKeptOfAModelsAnswer(t *testing.T) {
	candidates := make([]passage, 3)
	for raw, want := range map[string]int{
		`{"picks":[{"passage":0,"score":1},{"passage":2,"score":0.5}]}`:                       2,
		`{"picks":[{"passage":-1,"score":1},{"passage":3,"score":1}]}`:                        0,
		`{"picks":[{"passage":1,"score":1},{"passage":1,"score":1}]}`:                         1,
		`{"picks":[{"passage":0,"score":1},{"passage":1,"score":1},{"passage":2,"score":1}]}`: 2,
		`{"picks":"all of them"}`: 0,
		`no JSON`:                 0,
		``:                        0,
	} {
		if got := read([]byte(raw), candidates, 2); len(got) != want {
			t.Errorf("%s gives %d picks, want %d", raw, len(got), want)
		}
	}
}
