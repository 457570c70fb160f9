package media

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The range of a speaking voice's pitch in hertz; what is measured outside it is breath, noise or an octave error.
const (
	minPitch = 60
	maxPitch = 400
)

// Pitches is the measured pitch of a recording over time.
type Pitches struct {
	at []time.Duration
	hz []float64
}

// Pitch measures the pitch of a WAV file all along it.
func (r Runner) Pitch(ctx context.Context, wav string) (Pitches, error) {
	out, err := r.Run(ctx, "aubiopitch", "-i", wav, "-u", "Hz", "-p", "yinfft", "-s", "-40", "-l", "0.8", "-H", "256", "-B", "1024")
	if err != nil {
		return Pitches{}, err
	}
	return parsePitches(out.Stdout)
}

func parsePitches(table []byte) (Pitches, error) {
	var p Pitches
	rows := bufio.NewScanner(bytes.NewReader(table))
	for rows.Scan() {
		at, hz, ok := strings.Cut(rows.Text(), " ")
		t, err := strconv.ParseFloat(at, 64)
		f, err2 := strconv.ParseFloat(strings.TrimSpace(hz), 64)
		if !ok || err != nil || err2 != nil {
			return Pitches{}, fmt.Errorf("%w: a row of aubiopitch", ErrOutput)
		}
		if f > minPitch && f < maxPitch {
			p.at = append(p.at, time.Duration(t*float64(time.Second)))
			p.hz = append(p.hz, f)
		}
	}
	return p, nil
}

// Median returns the median pitch in hertz between two times, or 0 when no voice was measured there.
func (p Pitches) Median(from, to time.Duration) float64 {
	first, _ := slices.BinarySearch(p.at, from)
	last, _ := slices.BinarySearch(p.at, to)
	if first >= last {
		return 0
	}
	hz := slices.Sorted(slices.Values(p.hz[first:last]))
	return math.Round(hz[len(hz)/2]*10) / 10
}
