package sample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
)

// What a recording looks and sounds like.
const (
	Width  = 640
	Height = 360

	gap        = 700 * time.Millisecond // silence after every turn
	lead       = 400 * time.Millisecond // silence before the first
	frame      = 40 * time.Millisecond  // 25 frames a second; turns begin on a frame
	sampleRate = 16000
)

// Truth is what a generated recording contains.
type Truth struct {
	DurationMs int64    `json:"durationMs"`
	Turns      []Spoken `json:"turns"`
}

// Spoken is a turn as it stands in the recording. Its times span the synthesised speech, with the
// short silences that the voice itself puts around it.
type Spoken struct {
	Turn
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs"`
	Banner  bool  `json:"banner"` // name and title stand in the lower third during this turn
}

// Words joins what is said, in order.
func (t Truth) Words() string {
	said := make([]string, len(t.Turns))
	for i, turn := range t.Turns {
		said[i] = turn.Words
	}
	return strings.Join(said, " ")
}

// Names are the speakers in the order in which they first speak.
func (t Truth) Names() []string {
	var names []string
	seen := map[string]bool{}
	for _, turn := range t.Turns {
		if !seen[turn.Name] {
			seen[turn.Name] = true
			names = append(names, turn.Name)
		}
	}
	return names
}

// Generate speaks and draws a script into an MP4 file (H.264, AAC) at out and returns its truth. The
// file appears under its name only when it is complete.
func Generate(ctx context.Context, script []Turn, out string) (Truth, error) {
	if len(script) == 0 {
		return Truth{}, errors.New("generate sample: the script has no turns")
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), ".sample-*")
	if err != nil {
		return Truth{}, fmt.Errorf("make a folder for the sample: %w", err)
	}
	defer os.RemoveAll(dir)
	truth, err := speak(ctx, dir, script)
	if err != nil {
		return Truth{}, fmt.Errorf("speak the script: %w", err)
	}
	if err := draw(ctx, dir, truth); err != nil {
		return Truth{}, fmt.Errorf("draw the script: %w", err)
	}
	if err := os.Rename(filepath.Join(dir, "out.mp4"), out); err != nil {
		return Truth{}, fmt.Errorf("place the sample: %w", err)
	}
	return truth, nil
}

// speak writes speech.raw, 16 kHz mono, and lays the turns on the time line.
func speak(ctx context.Context, dir string, script []Turn) (Truth, error) {
	var truth Truth
	track := silence(lead)
	introduced := map[string]int{}
	for _, turn := range script {
		voice, err := synthesise(ctx, dir, turn)
		if err != nil {
			return Truth{}, err
		}
		start := len(track)
		track = append(track, voice...)
		// A banner stands while a speaker first talks and at every third turn of theirs after that.
		truth.Turns = append(truth.Turns, Spoken{
			Turn: turn, StartMs: millis(start), EndMs: millis(len(track)), Banner: introduced[turn.Name]%3 == 0,
		})
		introduced[turn.Name]++
		track = append(track, silence(gap)...)
		track = append(track, silence(untilFrame(len(track)))...)
	}
	truth.DurationMs = millis(len(track))
	return truth, os.WriteFile(filepath.Join(dir, "speech.raw"), track, 0o600)
}

func synthesise(ctx context.Context, dir string, turn Turn) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(dir, "say.txt"), []byte(turn.Words), 0o600); err != nil {
		return nil, err
	}
	err := ffmpeg(ctx, dir, "-f", "lavfi", "-i", "flite=textfile=say.txt:voice="+turn.Voice,
		"-ar", fmt.Sprint(sampleRate), "-ac", "1", "-f", "s16le", "say.raw")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "say.raw"))
}

func millis(bytes int) int64 { return int64(bytes) / 2 * 1000 / sampleRate }

func silence(d time.Duration) []byte {
	return make([]byte, 2*int(d.Milliseconds())*sampleRate/1000)
}

// untilFrame is what is missing to the next frame, at a resolution of one millisecond.
func untilFrame(bytes int) time.Duration {
	over := time.Duration(millis(bytes)) * time.Millisecond % frame
	return (frame - over) % frame
}

// ffmpeg runs on our own files only: the script reaches it as text files with generated names.
func ffmpeg(ctx context.Context, dir string, args ...string) error {
	_, err := media.Runner{Dir: dir}.Run(ctx, "ffmpeg", append([]string{"-nostdin", "-hide_banner", "-v", "error", "-y"}, args...)...)
	return err
}
