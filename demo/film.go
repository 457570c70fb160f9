package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagefleet/stagefleet/demo/sample"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// film is a generated recording and what is known about it.
type film struct {
	path  string
	truth sample.Truth
}

// look changes when the generator draws or speaks the same script differently, so that cached recordings of
// an older one are not used.
const look = "1"

// prepare generates the recording of a script, or takes the one of an earlier run.
func prepare(ctx context.Context, script string) (film, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return film{}, fmt.Errorf("read the script: %w", err)
	}
	turns, err := sample.Parse(strings.NewReader(string(text)))
	if err != nil {
		return film{}, err
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return film{}, fmt.Errorf("make the cache: %w", err)
	}
	cache, err := os.OpenRoot(cacheDir)
	if err != nil {
		return film{}, fmt.Errorf("open the cache: %w", err)
	}
	defer func() { _ = cache.Close() }()
	name := strings.TrimSuffix(filepath.Base(script), filepath.Ext(script)) + ".mp4"
	sum := sha256.Sum256(append(text, look+name...))
	key := hex.EncodeToString(sum[:8])
	path, err := filepath.Abs(filepath.Join(cacheDir, key, name))
	if err != nil {
		return film{}, fmt.Errorf("find the cache: %w", err)
	}
	return cached(ctx, cache, key, film{path: path}, turns)
}

// cached generates a recording unless the cache has it.
func cached(ctx context.Context, cache *os.Root, key string, f film, turns []sample.Turn) (film, error) {
	known := filepath.Join(key, "truth.json")
	if raw, err := cache.ReadFile(known); err == nil && json.Unmarshal(raw, &f.truth) == nil {
		fmt.Printf("recording %s, as generated before\n", f.path)
		return f, nil
	}
	fmt.Printf("generating a recording of %d turns ...\n", len(turns))
	if err := cache.MkdirAll(key, 0o755); err != nil {
		return film{}, fmt.Errorf("make a place in the cache: %w", err)
	}
	var err error
	if f.truth, err = sample.Generate(ctx, turns, f.path); err != nil {
		return film{}, err
	}
	raw, err := json.MarshalIndent(f.truth, "", "  ")
	if err != nil {
		return film{}, fmt.Errorf("encode the truth: %w", err)
	}
	// The truth is written last: where it is, the recording is complete.
	if err := cache.WriteFile(known, raw, 0o644); err != nil {
		return film{}, fmt.Errorf("write the truth: %w", err)
	}
	fmt.Printf("recording %s, %.1f s\n", f.path, float64(f.truth.DurationMs)/1000)
	return f, nil
}

// clips are the first turns, for a baseline without a fleet's choice to follow.
func (f film) clips() []clip {
	var clips []clip
	for _, turn := range f.truth.Turns[:min(4, len(f.truth.Turns))] {
		said := strings.Fields(turn.Words)
		half := len(said) / 2
		length := turn.EndMs - turn.StartMs
		clips = append(clips, clip{Segment: recording.Segment{StartMs: turn.StartMs, EndMs: turn.EndMs}, Cues: []recording.Cue{
			{StartMs: 0, EndMs: length / 2, Lines: []string{strings.Join(said[:half], " ")}},
			{StartMs: length / 2, EndMs: length, Lines: []string{strings.Join(said[half:], " ")}},
		}})
	}
	return clips
}
