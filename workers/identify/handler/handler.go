// Package handler is the identify stage: it finds out who speaks when. It asks the cheap witnesses first: what
// speakers say of themselves, names that stand in the lower third of the picture, and the pitch of each
// stretch of speech to tell voices apart. Only if somebody is still unnamed then, a vision model is asked,
// once. It says "unknown" rather than guess; similar voices that no name on screen tells apart count as one.
// Package worker is the caller.
package handler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

type (
	task     = worker.Task[recording.Transcribed]
	identify struct{ vision provider.Vision }
)

// New returns the handler with the vision model that the environment asks for.
func New(d worker.Deps) (worker.Handler[recording.Transcribed, recording.Identified], error) {
	vision, err := provider.ChooseVision(d.Getenv)
	if err != nil {
		return nil, err
	}
	return identify{vision}, nil
}

// Handle implements worker.Handler.
func (h identify) Handle(ctx context.Context, t task) (recording.Identified, error) {
	out := recording.Identified{V: recording.Version, Transcribed: t.Input, Speakers: []recording.Speaker{}, LowerThirds: []recording.Banner{}}
	turns := []recording.Turn{}
	if t.Input.Count > 0 && t.Input.Media.Audio != nil { // else there is nobody to name
		var words []recording.Word
		if err := t.Objects.ReadJSON(ctx, t.Input.Words, &words); err != nil {
			return recording.Identified{}, fmt.Errorf("read the words: %w", err)
		}
		seen, err := h.look(ctx, t)
		if err != nil {
			return recording.Identified{}, err
		}
		cast := castOf(witness(t.Input.Media.Speech, words, seen), seen.banners)
		if err := h.askVision(ctx, t, cast, words); err != nil {
			return recording.Identified{}, err
		}
		turns, out.Speakers, out.LowerThirds = cast.turns(), cast.speakers(), spans(seen.banners)
	}
	var err error
	if out.Turns, err = t.Objects.WriteJSON(ctx, "turns.json", turns); err != nil {
		return recording.Identified{}, fmt.Errorf("keep the turns: %w", err)
	}
	return out, nil
}

// evidence is what the tools saw and heard.
type evidence struct {
	banners []banner
	pitches media.Pitches
}

// look reads the screen and measures the voices, side by side. Neither is needed to go on: what a tool cannot
// make sense of is a gap.
func (h identify) look(ctx context.Context, t task) (evidence, error) {
	var seen evidence
	var screenErr, voiceErr error
	tools := media.Runner{Dir: t.Dir, Limits: media.Within(ctx, 2), Record: t.Ran} // two run side by side
	var both sync.WaitGroup
	both.Go(func() { seen.banners, screenErr = readScreen(ctx, t, tools) })
	both.Go(func() { seen.pitches, voiceErr = measureVoices(ctx, t, tools) })
	both.Wait()
	if isSenseless(screenErr) {
		t.Gap("screen_unread", "Names in the picture could not be read.")
		screenErr = nil
	}
	if isSenseless(voiceErr) {
		t.Gap("voices_unmeasured", "The voices could not be told apart by their pitch.")
		voiceErr = nil
	}
	return seen, errors.Join(screenErr, voiceErr)
}

// isSenseless reports a tool that gave up by itself, hit its limits or answered nonsense: it would do so again.
// One that was killed may do better next time.
func isSenseless(err error) bool {
	return media.GaveUp(err) || errors.Is(err, media.ErrLimit) || errors.Is(err, media.ErrOutput)
}

func measureVoices(ctx context.Context, t task, tools media.Runner) (media.Pitches, error) {
	path, err := t.Objects.Path(ctx, *t.Input.Media.Audio)
	if err != nil {
		return media.Pitches{}, fmt.Errorf("fetch the sound: %w", err)
	}
	return tools.Pitch(ctx, path)
}

func readScreen(ctx context.Context, t task, tools media.Runner) ([]banner, error) {
	facts := t.Input.Media.Facts
	if !facts.HasVideo {
		return nil, nil
	}
	path, err := t.Objects.Path(ctx, t.Input.Media.Source)
	if err != nil {
		return nil, fmt.Errorf("fetch the recording: %w", err)
	}
	length := time.Duration(facts.DurationMs) * time.Millisecond
	frames, err := tools.LowerThirds(ctx, path, t.Input.Media.Demuxer, length)
	if err != nil {
		return nil, err
	}
	lines, err := tools.Read(ctx, frames)
	if err != nil {
		return nil, err
	}
	return bannersOf(frames, lines, length), nil
}
