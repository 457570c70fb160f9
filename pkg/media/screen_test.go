package media

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// titled draws a lower third on plain slides: a name between the seconds 2 and 4.
func titledFilm(t *testing.T) string {
	return makeFile(t, "film.mp4", "-f", "lavfi", "-i", "color=c=0x14324f:s=640x360:r=10:d=6", "-vf",
		"drawbox=x=0:y=274:w=iw:h=70:color=black@0.75:t=fill:enable='between(t,2,4)',"+
			"drawtext=font=DejaVu Sans:text=Mary Wilson:fontsize=24:fontcolor=white:x=40:y=284:enable='between(t,2,4)',"+
			"drawtext=font=DejaVu Sans:text=Chief Engineer:fontsize=18:fontcolor=white:x=40:y=316:enable='between(t,2,4)'")
}

func TestALowerThirdIsSeenWhenItAppearsAndReadWhateverTheFolderIsCalled(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a [b] %d:'c' -i")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	r := Runner{Dir: odd}
	frames, err := r.LowerThirds(t.Context(), titledFilm(t), "mov", 6*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for _, f := range frames {
		times = append(times, f.At)
	}
	if !slices.Equal(times, []time.Duration{0, 2 * time.Second, 4 * time.Second}) &&
		!slices.Equal(times, []time.Duration{0, 2 * time.Second, 4500 * time.Millisecond}) {
		t.Fatalf("looked at %v", times)
	}
	lines, err := r.Read(t.Context(), frames)
	if err != nil || len(lines) != 2 {
		t.Fatalf("got %+v, %v", lines, err)
	}
	if lines[0].Text != "Mary Wilson" || lines[1].Text != "Chief Engineer" || lines[0].Frame != 1 || lines[0].Top >= lines[1].Top || lines[0].Confidence < 80 {
		t.Fatalf("got %+v", lines)
	}
}

func TestNoFramesNeedNoReader(t *testing.T) {
	ran := false
	r := Runner{Dir: t.TempDir(), Record: func(string, time.Time, time.Time, time.Duration) { ran = true }}
	if lines, err := r.Read(t.Context(), nil); err != nil || lines != nil || ran {
		t.Fatalf("got %v, %v, ran %v", lines, err, ran)
	}
}

func TestAStillIsTakenAtItsTime(t *testing.T) {
	r, film := Runner{Dir: t.TempDir()}, titledFilm(t)
	size := func(at time.Duration) int64 {
		if err := r.Still(t.Context(), film, "mov", at, "still.jpg"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(r.Dir, "still.jpg"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if plain, lettered := size(time.Second), size(3*time.Second); lettered < plain+1000 {
		t.Fatalf("a still with letters has %d bytes, one without %d", lettered, plain)
	}
	if err := r.Still(t.Context(), film, "mov", time.Hour, "never.jpg"); !errors.Is(err, ErrOutput) {
		t.Fatalf("a still from after the end: %v", err)
	}
}

func TestALongRecordingIsLookedAtInLongerSteps(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		time.Second: 500 * time.Millisecond, 200 * time.Second: 500 * time.Millisecond,
		400 * time.Second: time.Second, 4 * time.Hour: 36 * time.Second,
	} {
		if got := lookStep(length); got != want {
			t.Errorf("%v: got %v", length, got)
		}
	}
}

// row is a line of tesseract's table.
func row(page, line, word int, top int, confidence, text string) string {
	return fmt.Sprintf("5\t%d\t1\t1\t%d\t%d\t10\t%d\t50\t20\t%s\t%s", page, line, word, top, confidence, text)
}

func TestWordsAreJoinedToLinesAndDoubtfulOnesLeftOut(t *testing.T) {
	table := strings.Join([]string{
		"level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext",
		"4\t1\t1\t1\t1\t0\t10\t12\t50\t20\t-1\t",
		row(1, 1, 1, 12, "96.5", "Mary"), row(1, 1, 2, 12, "90.5", "Wilson"), row(1, 1, 3, 12, "60", "~"),
		row(1, 2, 1, 40, "99", "Engineer"), row(2, 1, 1, 12, "97", "Next"), row(9, 1, 1, 12, "97", "beyond"),
		"5\t1\tbroken", row(2, 2, 1, 40, "not a number", "x"), row(2, 3, 1, 40, "95", "  "),
	}, "\n")
	want := []Line{
		{Frame: 0, Top: 12, Height: 20, Confidence: 93.5, Text: "Mary Wilson"},
		{Frame: 0, Top: 40, Height: 20, Confidence: 99, Text: "Engineer"},
		{Frame: 1, Top: 12, Height: 20, Confidence: 97, Text: "Next"},
	}
	if got := parseTSV([]byte(table), 2); !slices.Equal(got, want) {
		t.Fatalf("got %+v", got)
	}
}

func FuzzTSV(f *testing.F) {
	f.Add([]byte(row(1, 1, 1, 1, "99", "a")+"\n"+row(2, 1, 1, 1, "NaN", "b")), 2)
	f.Fuzz(func(t *testing.T, table []byte, pages int) {
		for _, l := range parseTSV(table, pages) {
			if l.Frame < 0 || l.Frame >= pages || l.Text == "" || !(l.Confidence > minConfidence) {
				t.Fatalf("read %+v of %d pages", l, pages)
			}
		}
	})
}
