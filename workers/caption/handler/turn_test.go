package handler

import (
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

var cast = []recording.Speaker{
	{ID: "s1", Name: "John Carter", Title: "Director", Evidence: recording.EvidenceBoth},
	{ID: "s2", Evidence: recording.EvidenceUnknown},
}

func TestMarkupNeverReachesACaption(t *testing.T) {
	for in, want := range map[string]string{
		`<font size=90>big</font>`:  `font size=90big/font`,
		`{\an8}top`:                 `an8top`,
		"two\nlines\r\nand\ttabs":   "two lines and tabs",
		"1 --> 2":                   "1 -- 2",
		"nul\x00 bell\x07 \u2028ls": "nul bell ls",
		"100 % & more":              "100 % & more",
		"naïve Łukasz 日本":           "naïve Łukasz 日本",
		`<>{}\`:                     "",
	} {
		if got := plain(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestATurnWithoutCapitalsGetsThemWhereTheyAreCertain(t *testing.T) {
	for in, want := range map[string]string{
		"my name is john carter and i'll speak if i may": "My name is John Carter and I'll speak if I may",
		"john will not come in <b> carter":               "John will not come in b carter",
		"i":                                              "I",
		"as Written by a better recogniser, i think": "as Written by a better recogniser, i think",
	} {
		if got := text(legible(speak(0, in), cast)); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestEveryWordBelongsToExactlyOneTurn(t *testing.T) {
	words := speak(0, "a b c d e f g h i j") // 0 to 3 s
	said := turns(words, []recording.Turn{
		{StartMs: 300, EndMs: 900, Speaker: "s1"}, {StartMs: 1200, EndMs: 1300, Speaker: "s2"}, {StartMs: 1300, EndMs: 1350, Speaker: "s1"}, {StartMs: 1600, EndMs: 2000, Speaker: "s2"},
	}, nil)
	var got []string
	for _, turn := range said {
		got = append(got, turn.Speaker+" "+turn.Text)
	}
	// The third turn is too short to hold the middle of a word, so it says nothing and is left out.
	want := "s1 A b c d|s1 E|s2 F g h I j"
	if strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", strings.Join(got, "|"), want)
	}
	if said := turns(words, nil, nil); len(said) != 1 || len(said[0].Words) != 10 {
		t.Errorf("words without turns: %+v", said)
	}
}

func TestATitleNamesSubjectAndSpeakers(t *testing.T) {
	said := turns(speak(0, "john carter says the bridge needs money and the bridge needs paint"), nil, nil)
	if got := title(said, cast); got != "Bridge, needs and money: John Carter" {
		t.Errorf("title %q", got)
	}
	if got := title(nil, nil); got != noSpeechTitle {
		t.Errorf("title without words %q", got)
	}
	if got := clipTitle(speak(0, "good day")); got != "good day" {
		t.Errorf("clip title %q", got)
	}
	if got := clipTitle(speak(0, strings.Repeat("abcdefghi ", 10))); got != "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi…" {
		t.Errorf("clip title %q", got)
	}
	if got := clipTitle(nil); got != "" {
		t.Errorf("clip title without words %q", got)
	}
}

func TestASummaryQuotesTheBestSegmentsInOrderOfTime(t *testing.T) {
	words := append(append(append(speak(0, "first things"), speak(10_000, "second things")...), speak(20_000, "third things")...), speak(30_000, "fourth things")...)
	said := turns(words, nil, nil)
	segments := []recording.Segment{
		{StartMs: 0, EndMs: 5_000, Score: 0.4, Speaker: "s1"}, {StartMs: 10_000, EndMs: 15_000, Score: 0.1, Speaker: "s1"},
		{StartMs: 20_000, EndMs: 25_000, Score: 0.2, Speaker: "s2"}, {StartMs: 30_000, EndMs: 35_000, Score: 0.3, Speaker: "s1"},
	}
	want := "John Carter: First things. third things. John Carter: fourth things."
	if got := summary(said, segments, cast); got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
	if got := summary(nil, nil, nil); got != noSpeech {
		t.Errorf("summary without words %q", got)
	}
}
