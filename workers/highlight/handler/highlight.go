// Package handler chooses the segments of a recording that are worth a clip.
//
// A language model chooses when one is configured; otherwise a scorer that knows word frequency and nothing
// of meaning. It promises segments that lie inside the recording, in order of time, without overlap; none
// when there is sound but nobody speaks. It does not promise taste. The worker calls it.
package handler

import (
	"context"

	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// GapUnranked says that there was nothing to choose by.
const GapUnranked = "clips_unranked"

type handler struct{ language provider.Language }

// New makes the stage's handler.
func New(deps worker.Deps) (worker.Handler[recording.Identified, recording.Highlighted], error) {
	language, err := provider.ChooseLanguage(deps.Getenv)
	if err != nil {
		return nil, err
	}
	return handler{language}, nil
}

// Handle implements worker.Handler.
func (h handler) Handle(ctx context.Context, t worker.Task[recording.Identified]) (recording.Highlighted, error) {
	out := recording.Highlighted{V: recording.Version, Identified: t.Input, Segments: []recording.Segment{}}
	facts := t.Input.Media.Facts
	if !facts.HasAudio {
		t.Gap(GapUnranked, "The recording has no sound to choose by, so the clips are spread evenly over it.")
		out.Segments = spread(facts.DurationMs)
		return out, nil
	}
	var words []recording.Word
	var turns []recording.Turn
	if err := t.Objects.ReadJSON(ctx, t.Input.Words, &words); err != nil {
		return out, err
	}
	if err := t.Objects.ReadJSON(ctx, t.Input.Turns, &turns); err != nil {
		return out, err
	}
	candidates := passages(words, turns)
	if len(candidates) == 0 {
		return out, nil
	}
	picked, err := h.ask(ctx, t, candidates)
	if err != nil {
		return out, err
	}
	out.Segments = segments(picked, facts.DurationMs)
	return out, nil
}
