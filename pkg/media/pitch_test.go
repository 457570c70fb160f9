package media

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestPitchIsMeasuredOverTime(t *testing.T) {
	wav := makeFile(t, "two.wav", "-f", "lavfi", "-i", "sine=120:r=16000:d=2", "-f", "lavfi", "-i", "sine=220:r=16000:d=2",
		"-filter_complex", "[0][1]concat=n=2:v=0:a=1")
	p, err := Runner{}.Pitch(t.Context(), wav)
	if err != nil {
		t.Fatal(err)
	}
	low, high := p.Median(0, 2*time.Second), p.Median(2100*time.Millisecond, 4*time.Second)
	if low < 115 || low > 125 || high < 210 || high > 230 {
		t.Fatalf("got %v and %v Hz", low, high)
	}
	if none := p.Median(time.Minute, 2*time.Minute); none != 0 {
		t.Fatalf("got %v Hz after the end", none)
	}
}

func TestOnlyVoicesCount(t *testing.T) {
	p, err := parsePitches([]byte("0.0 0.0\n0.1 59\n0.2 100\n0.3 400\n0.4 110\n0.5 120\n"))
	if err != nil || p.Median(0, time.Second) != 110 {
		t.Fatalf("got %+v, %v", p, err)
	}
	if at := p.Median(200*time.Millisecond, 400*time.Millisecond); at != 100 {
		t.Fatalf("the end of a stretch is not part of it: got %v", at)
	}
	if _, err := parsePitches([]byte("nonsense\n")); !errors.Is(err, ErrOutput) {
		t.Fatalf("got %v", err)
	}
}

func FuzzPitches(f *testing.F) {
	f.Add([]byte("0.1 100\n0.05 200\n"))
	f.Fuzz(func(t *testing.T, table []byte) {
		p, err := parsePitches(table)
		if err != nil {
			return
		}
		if m := p.Median(0, time.Hour); m != 0 && (m < minPitch || m > maxPitch) {
			t.Fatal(fmt.Sprint(m))
		}
	})
}
