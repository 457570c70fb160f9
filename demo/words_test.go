package main

import (
	"math"
	"testing"
)

func TestTheWordErrorRateCountsTheFewestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		said, heard string
		want        float64
	}{
		"the same":                        {"Good morning, my name is Ann.", "good morning my name is ann", 0},
		"one of four replaced":            {"the old bridge is", "the cold bridge is", 0.25},
		"one of four missed":              {"the old bridge is", "the bridge is", 0.25},
		"one invented":                    {"the old bridge is", "the old bridge is huh", 0.25},
		"a shift is not four mistakes":    {"a b c d", "x a b c d", 0.25},
		"nothing heard":                   {"a b c d", "", 1},
		"more heard than said":            {"a", "b c d", 3},
		"nothing said":                    {"", "b", 0},
		"an apostrophe belongs to a word": {"I'll come", "ill come", 0.5},
	} {
		if got := wordErrorRate(c.said, c.heard); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestLikenessForgivesWhatReadingOffAPictureGetsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		a, b     string
		from, to float64
	}{
		"the same but for spaces and case": {"The council will\nvote", "the council willvote", 1, 1},
		"one letter misread":               {"the council will vote", "the counci1 will vote", 0.9, 0.99},
		"another text":                     {"the council will vote", "Planning Director, City of Lakeview", 0, 0.4},
		"nothing read":                     {"the council will vote", "", 0, 0},
		"both empty":                       {"", "", 1, 1},
	} {
		if got := likeness(c.a, c.b); got < c.from || got > c.to {
			t.Errorf("%s: %v, want %v to %v", name, got, c.from, c.to)
		}
	}
}
