package provider

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

func TestRecognisedWordsKeepTheirTimesAndLoseTheirMarks(t *testing.T) {
	answer := "good and\n<s> 0.060 0.160 0.999500\ngood 0.170 0.440 0.999600\n<sil> 0.45 0.5 0.9\n[NOISE] 0.5 0.6 0.9\n++BREATH++ 0.6 0.7 0.9\nand(2) 0.700 0.700 1.200000\n</s> 0.8 0.9 1\n"
	got, err := parseSphinx([]byte(answer))
	want := []recording.Word{{Text: "good", StartMs: 170, EndMs: 440, Confidence: 0.9996}, {Text: "and", StartMs: 700, EndMs: 701, Confidence: 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestAnUtteranceOfFourWordsIsNotAWord(t *testing.T) {
	if got, err := parseSphinx([]byte("we are here now\n\n")); err != nil || len(got) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestTheRecogniserEndsBeforeItsTimeDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := speechCPU(t.Context(), time.Hour); got != 3*time.Hour+time.Minute {
			t.Errorf("without a deadline: %v", got)
		}
		for left, want := range map[time.Duration]time.Duration{90 * time.Minute: 72 * time.Minute, 10 * time.Hour: 3*time.Hour + time.Minute, -time.Hour: time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			if got := speechCPU(ctx, time.Hour); got != want {
				t.Errorf("%v before the deadline: %v, want %v", left, got, want)
			}
			cancel()
		}
	})
}

func TestNothingHeardIsNoFailure(t *testing.T) {
	if got, err := parseSphinx(nil); err != nil || len(got) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func FuzzSphinx(f *testing.F) {
	f.Add([]byte("a 0.1 0.2 0.3\nb NaN Inf -1\nc 1e300 2 3\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		words, err := parseSphinx(answer)
		if err != nil {
			return
		}
		for _, w := range words {
			if w.Text == "" || w.StartMs < 0 || w.EndMs <= w.StartMs || !(w.Confidence >= 0 && w.Confidence <= 1) {
				t.Fatalf("heard %+v", w)
			}
		}
	})
}
