package handler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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

func show(cues []recording.Cue) string {
	var b strings.Builder
	for _, c := range cues {
		fmt.Fprintf(&b, "%d-%d %s\n", c.StartMs, c.EndMs, strings.Join(c.Lines, " / "))
	}
	return b.String()
}

func TestALongTurnIsDividedIntoCuesOfLikeLength(t *testing.T) {
	got := show(cues(speak(1000, "the council will vote about the money for the bridge on the first Monday in October of next year"), 60_000))
	want := "" +
		"1000-4000 the council will vote about / the money for the bridge\n" +
		"4000-7100 on the first Monday in / October of next year\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAPauseEndsACueAndTheCueStaysALittleIntoIt(t *testing.T) {
	for pause, want := range map[int64]string{
		600: "0-4000 the bridge is old who pays for it now sir\n",
		601: "0-1600 the bridge is old\n1801-4001 who pays for it now sir\n",
	} {
		words := append(speak(0, "the bridge is old"), speak(1200+pause, "who pays for it now sir")...)
		if got := show(cues(words, 60_000)); got != want {
			t.Errorf("after a pause of %d ms: got\n%swant\n%s", pause, got, want)
		}
	}
}

func TestACueEndsWhereTheClipDoes(t *testing.T) {
	if got := show(cues(speak(0, "good day"), 650)); got != "0-650 good day\n" {
		t.Errorf("got %s", got)
	}
}

func TestCuesHoldEveryWordOnceInOrderWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words []recording.Word
		at := rapid.Int64Range(0, 1000).Draw(t, "start")
		for range rapid.IntRange(0, 80).Draw(t, "words") {
			length := rapid.Int64Range(1, 1500).Draw(t, "length")
			words = append(words, recording.Word{
				Text: rapid.StringMatching(`[a-zà-ý]{1,50}`).Draw(t, "text"), StartMs: at, EndMs: at + length,
			})
			at += length + rapid.SampledFrom([]int64{0, 10, 600, 601, 3000}).Draw(t, "pause")
		}
		end := at + rapid.Int64Range(0, 2000).Draw(t, "rest")
		shown, last := "", int64(0)
		for _, c := range cues(words, end) {
			if c.StartMs < last || c.EndMs <= c.StartMs || c.EndMs > end {
				t.Fatalf("cue from %d to %d after %d, before %d", c.StartMs, c.EndMs, last, end)
			}
			if len(c.Lines) == 0 || len(c.Lines) > recording.CueLines {
				t.Fatalf("cue with %d lines", len(c.Lines))
			}
			for _, l := range c.Lines {
				if n := utf8.RuneCountInString(l); n == 0 || n > recording.CueColumns {
					t.Fatalf("line of %d characters", n)
				}
			}
			last = c.EndMs
			shown += " " + strings.Join(c.Lines, " ")
		}
		var want []string
		for _, w := range words {
			want = append(want, shorten(w.Text))
		}
		if got := strings.Fields(shown); !slices.Equal(got, want) {
			t.Fatalf("shown %q, want %q", got, want)
		}
	})
}
