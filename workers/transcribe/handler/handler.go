// Package handler is the transcribe stage: it has the recording's sound turned into words with times. A recording without sound, or
// in which nobody seems to speak, gets an empty list of words and costs nothing. How good the words are is the provider's matter;
// their order and their times are checked here. Package worker is the caller.
package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// noEngine is the engine of a transcript that nobody had to make.
const noEngine = "none"

type transcribe struct {
	speech provider.Speech
	local  bool // it works here, on this task's account: not a wait for somebody else
}

// New returns the handler with the recogniser that the environment asks for.
func New(d worker.Deps) (worker.Handler[recording.Media, recording.Transcribed], error) {
	speech, err := provider.ChooseSpeech(d.Getenv)
	if err != nil {
		return nil, err
	}
	_, local := speech.(provider.Pocketsphinx)
	return transcribe{speech, local}, nil
}

// Handle implements worker.Handler.
func (h transcribe) Handle(ctx context.Context, t worker.Task[recording.Media]) (recording.Transcribed, error) {
	length := t.Input.Facts.DurationMs / 1000
	t.Progress("seconds", 0, length)
	heard := provider.Transcript{Engine: noEngine}
	if len(t.Input.Speech) > 0 {
		var err error
		if heard, err = h.listen(ctx, t); err != nil {
			return recording.Transcribed{}, err
		}
	}
	t.Progress("seconds", length, length)
	words := tidy(heard.Words, t.Input.Facts.DurationMs)
	object, err := t.Objects.WriteJSON(ctx, "words.json", words)
	if err != nil {
		return recording.Transcribed{}, fmt.Errorf("keep the words: %w", err)
	}
	return recording.Transcribed{V: recording.Version, Media: t.Input, Words: object, Count: len(words),
		Engine: heard.Engine, Confidence: confidence(words)}, nil
}

func (h transcribe) listen(ctx context.Context, t worker.Task[recording.Media]) (provider.Transcript, error) {
	path, err := t.Objects.Path(ctx, *t.Input.Audio)
	if err != nil {
		return provider.Transcript{}, fmt.Errorf("fetch the sound: %w", err)
	}
	request := provider.Recording{Path: path, DurationMs: t.Input.Facts.DurationMs, Tools: media.Runner{Dir: t.Dir, Limits: media.Within(ctx, 1), Record: t.Ran}}
	var heard provider.Transcript
	if h.local {
		heard, err = h.speech.Transcribe(ctx, request)
	} else {
		err = t.Provider(ctx, func(ctx context.Context) error {
			heard, err = h.speech.Transcribe(ctx, request)
			return err
		})
	}
	if errors.Is(err, media.ErrLimit) {
		return heard, outcome.Reject("too_costly", "The recording takes more computing than is allowed for one.") // another try would, too
	}
	return heard, err
}

// tidy puts words in order and keeps their times inside the recording, because later stages cut by them. Its result is never nil.
func tidy(words []recording.Word, durationMs int64) []recording.Word {
	kept := make([]recording.Word, 0, len(words))
	for _, w := range words {
		w.StartMs, w.EndMs = max(w.StartMs, 0), min(w.EndMs, durationMs)
		if w.Text != "" && w.EndMs > w.StartMs {
			kept = append(kept, w)
		}
	}
	slices.SortStableFunc(kept, func(a, b recording.Word) int { return cmp.Compare(a.StartMs, b.StartMs) })
	return kept
}

func confidence(words []recording.Word) float64 {
	if len(words) == 0 {
		return 0
	}
	sum := 0.0
	for _, w := range words {
		sum += w.Confidence
	}
	return sum / float64(len(words))
}
