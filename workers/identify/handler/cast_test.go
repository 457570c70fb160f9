package handler

import (
	"slices"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// at lays voices of three seconds one after another, a second apart, at the given pitches (0: unknown).
func at(pitches ...float64) []voice {
	var voices []voice
	for i, p := range pitches {
		voices = append(voices, voice{from: int64(i) * 4000, to: int64(i)*4000 + 3000, pitch: p, group: -1})
	}
	return voices
}

// over is a banner from one time to another, in milliseconds.
func over(name, title string, from, to int64) banner {
	return banner{from: from, to: to, text: name + " / " + title, name: name, title: title, confidence: 95}
}

// names decides and returns the name of each voice, "?" for nobody.
func names(voices []voice, banners ...banner) []string {
	show(voices, banners)
	groupByPitch(voices)
	c := castOf(voices, banners)
	var got []string
	for i := range voices {
		name := c.names[c.of[i]].Name
		if name == "" {
			name = "?"
		}
		got = append(got, name)
	}
	return got
}

func TestNamesFollowBannersAndPitch(t *testing.T) {
	const john, mary, ann = "John Carter", "Mary Wilson", "Ann Lee"
	for story, c := range map[string]struct {
		voices  []voice
		banners []banner
		want    []string
	}{
		"each voice is introduced once": {at(100, 170, 102, 168), []banner{over(john, "x", 0, 3500), over(mary, "y", 4000, 7500)},
			[]string{john, mary, john, mary}},
		"a banner that stands a little too long says nothing of the next voice": {at(100, 170), []banner{over(john, "x", 0, 5000)},
			[]string{john, "?"}},
		"a banner that stands on and on names only the voice it came up for": {at(100, 170, 101), []banner{over(john, "x", 0, 11000)},
			[]string{john, "?", john}},
		"similar voices are told apart by their banners": {at(100, 105, 103), []banner{over(john, "x", 0, 3000), over(ann, "y", 4000, 7000)},
			[]string{john, ann, "?"}},
		"three people, two of one pitch": {at(100, 170, 104, 171), []banner{over(john, "x", 0, 3000), over(mary, "y", 4000, 7000), over(ann, "z", 8000, 11000)},
			[]string{john, mary, ann, mary}},
		"three voices": {at(100, 130, 170, 102, 168, 131), []banner{over(john, "x", 0, 3000), over(ann, "y", 4000, 7000), over(mary, "z", 8000, 11000)},
			[]string{john, ann, mary, john, mary, ann}},
		"nobody is named":            {at(100, 170), nil, []string{"?", "?"}},
		"text that names nobody":     {at(100, 170), []banner{{from: 0, to: 8000, text: "River Park News"}}, []string{"?", "?"}},
		"a voice without a pitch":    {at(100, 0, 100), []banner{over(john, "x", 0, 3000)}, []string{john, "?", john}},
		"a banner shown between two": {at(100, 170), []banner{over(mary, "y", 3000, 7000)}, []string{"?", mary}},
	} {
		t.Run(story, func(t *testing.T) {
			if got := names(c.voices, c.banners...); !slices.Equal(got, c.want) {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func TestVoicesArePartedOnlyByAClearGap(t *testing.T) {
	for _, c := range []struct {
		pitches []float64
		want    []int
	}{
		{[]float64{100, 115}, []int{0, 0}},
		{[]float64{100, 115.1}, []int{0, 1}},
		{[]float64{170, 100, 0, 165}, []int{1, 0, -1, 1}},
		{[]float64{130, 100, 174, 104}, []int{1, 0, 2, 0}},
		{[]float64{0, 0}, []int{-1, -1}},
		{[]float64{120}, []int{0}},
	} {
		voices := at(c.pitches...)
		groupByPitch(voices)
		var got []int
		for _, v := range voices {
			got = append(got, v.group)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v", c.pitches, got)
		}
	}
}

func TestEvidenceSaysWhatANameRestsOn(t *testing.T) {
	voices := at(100, 170, 100)
	voices[0].said, voices[1].said = "John Carter", "Mary Wilson"
	banners := []banner{over("John Carter", "Planning Director", 0, 3000)}
	show(voices, banners)
	groupByPitch(voices)
	c := castOf(voices, banners)
	want := []recording.Speaker{
		{ID: "s1", Name: "John Carter", Title: "Planning Director", Evidence: recording.EvidenceBoth},
		{ID: "s2", Name: "Mary Wilson", Evidence: recording.EvidenceSpoken},
	}
	if got := c.speakers(); !slices.Equal(got, want) {
		t.Fatalf("got %+v", got)
	}
	if len(c.unknown()) != 0 {
		t.Fatalf("unknown: %v", c.unknown())
	}
}

func TestTwoIntroductionsInOneVoiceNameOnlyTheirOwnTurns(t *testing.T) {
	voices := at(100, 101, 102)
	voices[0].said, voices[1].said = "John Carter", "Ann Lee"
	if got := names(voices); !slices.Equal(got, []string{"John Carter", "Ann Lee", "?"}) {
		t.Fatalf("got %q", got)
	}
}

func TestShortPausesDoNotEndATurn(t *testing.T) {
	voices := []voice{{from: 0, to: 2000, pitch: 100}, {from: 2999, to: 5000, pitch: 100}, {from: 6000, to: 7000, pitch: 100}, {from: 7100, to: 8000, pitch: 200}}
	groupByPitch(voices)
	want := []recording.Turn{{StartMs: 0, EndMs: 5000, Speaker: "s1"}, {StartMs: 6000, EndMs: 7000, Speaker: "s1"}, {StartMs: 7100, EndMs: 8000, Speaker: "s2"}}
	if got := castOf(voices, nil).turns(); !slices.Equal(got, want) {
		t.Fatalf("got %+v", got)
	}
}

// say makes words of a sentence, one each 300 ms, all well heard.
func say(sentence string) []recording.Word {
	var words []recording.Word
	for i, w := range strings.Fields(sentence) {
		words = append(words, recording.Word{Text: w, StartMs: int64(i) * 300, EndMs: int64(i)*300 + 250, Confidence: 0.9})
	}
	return words
}

func TestPeopleAreTakenAtTheirWordOnlyWhenTheySpeakOfThemselves(t *testing.T) {
	for sentence, want := range map[string]string{
		"good morning my name is john carter and i lead the department": "John Carter",
		"my name is zbigniew kowal":                                     "Zbigniew Kowal",
		"My name is Mary Wilson. I am glad":                             "Mary Wilson",
		"hello i am mary wilson and i am the engineer":                  "Mary Wilson",
		"hi i'm mary wilson":                                            "Mary Wilson",
		"this is mary wilson speaking from the river":                   "Mary Wilson",
		"my name is doctor":                                             "",
		"my name is dr mary wilson":                                     "Mary Wilson",
		"my name is on the list":                                        "",
		"i am very happy today":                                         "",
		"i am planning director of this city":                           "",
		"thank you mary wilson":                                         "",
		"and then after a long walk we said this is mary wilson":        "",
		"this is good news":                                             "",
		"my name is":                                                    "",
		"":                                                              "",
	} {
		if got := introduction(say(sentence)); got != want {
			t.Errorf("%q: got %q", sentence, got)
		}
	}
}

func TestANameThatWasHardlyHeardIsNotTaken(t *testing.T) {
	words := say("my name is john carter")
	words[4].Confidence = leastTrust - 0.01
	if got := introduction(words); got != "" {
		t.Fatalf("got %q", got)
	}
}

func TestTheSpellingOnScreenIsPreferred(t *testing.T) {
	banners := []banner{over("Jon Carter", "", 0, 1)}
	if got := spelled("John Carter", banners); got != "Jon Carter" {
		t.Errorf("got %q", got)
	}
	if got := spelled("Mary Wilson", banners); got != "Mary Wilson" {
		t.Errorf("got %q", got)
	}
}

func TestAStillStandsUntilTheNextOne(t *testing.T) {
	frames := []media.Frame{{At: 0}, {At: 2e9}, {At: 3e9}, {At: 5e9}, {At: 8e9}}
	lines := []media.Line{
		{Frame: 1, Top: 40, Confidence: 90, Text: "Project Engineer"}, {Frame: 1, Top: 10, Confidence: 95, Text: "Mary Wilson"},
		{Frame: 2, Top: 10, Confidence: 70, Text: "Mary Wi1son"},
		{Frame: 4, Top: 10, Confidence: 95, Text: "River Park News"},
	}
	got := bannersOf(frames, lines, 10e9)
	want := []banner{
		{from: 2000, to: 3000, text: "Mary Wilson / Project Engineer", name: "Mary Wilson", title: "Project Engineer", confidence: 95},
		{from: 3000, to: 5000, text: "Mary Wi1son"},      // has not the shape of a name
		{from: 8000, to: 10000, text: "River Park News"}, // may be anything
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v", got)
	}
}

func TestStillsWithTheSameNameAreOneBanner(t *testing.T) {
	frames := []media.Frame{{At: 0}, {At: 2e9}, {At: 3e9}}
	lines := []media.Line{{Frame: 0, Confidence: 95, Text: "Mary Wilson"}, {Frame: 1, Confidence: 90, Text: "Mary Wilsen"}, {Frame: 2, Confidence: 95, Text: "Ann Lee"}}
	got := bannersOf(frames, lines, 4e9)
	if len(got) != 2 || got[0].to != 3000 || got[0].name != "Mary Wilson" || got[1].name != "Ann Lee" {
		t.Fatalf("got %+v", got)
	}
}

func TestTheReadingThatStoodLongestWins(t *testing.T) {
	banners := []banner{over("Mary Wilson", "Engineer", 0, 4000), over("Mary Wilsom", "Engineer", 5000, 6000), over("John Carter", "Mayor", 7000, 8000)}
	settle(banners)
	if banners[1].name != "Mary Wilson" || banners[2].name != "John Carter" {
		t.Fatalf("got %+v", banners)
	}
}

func TestATitleIsNotTakenForAName(t *testing.T) {
	got := read([]media.Line{{Text: "Bridge Budget"}, {Text: "Mary Wilson"}, {Text: "Bridge Painter"}})
	if got.name != "Mary Wilson" || got.title != "Bridge Painter" {
		t.Fatalf("got %+v", got)
	}
	if got := read([]media.Line{{Text: "Planning Director"}, {Text: "City of Lakeview"}}); got.name != "" || got.text != "Planning Director / City of Lakeview" {
		t.Fatalf("got %+v", got)
	}
}
