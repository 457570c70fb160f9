// Package handler writes what is read: captions, transcript, titles and the summary, and orders one clip per
// segment.
//
// It promises cues of at most two lines of 42 characters that hold no markup, never two at a time, inside the
// recording or the clip. Title and summary quote the transcript; they do not understand it. The worker calls
// it; compile makes the clips it orders, publish gets the rest.
package handler

import (
	"context"
	"io"

	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

type (
	task  = worker.Task[recording.Highlighted]
	parts = worker.Parts[recording.Captioned, recording.ClipOrder]
)

type handler struct{}

// New makes the stage's handler.
func New(worker.Deps) (worker.Handler[recording.Highlighted, parts], error) { return handler{}, nil }

// Handle implements worker.Handler.
func (handler) Handle(ctx context.Context, t task) (parts, error) {
	var words []recording.Word
	var spoken []recording.Turn
	if err := t.Objects.ReadJSON(ctx, t.Input.Words, &words); err != nil {
		return parts{}, err
	}
	if err := t.Objects.ReadJSON(ctx, t.Input.Turns, &spoken); err != nil {
		return parts{}, err
	}
	said := turns(words, spoken, t.Input.Speakers)
	head, err := write(ctx, t, said)
	if err != nil {
		return parts{}, err
	}
	items := make([]recording.ClipOrder, len(t.Input.Segments))
	for i, s := range t.Input.Segments {
		items[i] = order(t.Input, said, i, s)
	}
	return parts{Head: head, Items: items}, nil
}

// write keeps the texts about the whole recording.
func write(ctx context.Context, t task, said []recording.Said) (recording.Captioned, error) {
	in := t.Input
	head := recording.Captioned{
		V: recording.Version, Highlighted: in,
		Title: title(said, in.Speakers), Summary: summary(said, in.Segments, in.Speakers),
	}
	all := whole(said, in.Media.Facts.DurationMs)
	var err error
	if head.SRT, err = t.Objects.Write(ctx, "transcript.srt", plainText(recording.SRT(all))); err != nil {
		return head, err
	}
	if head.VTT, err = t.Objects.Write(ctx, "transcript.vtt", plainText(recording.WebVTT(all))); err != nil {
		return head, err
	}
	head.Transcript, err = t.Objects.WriteJSON(ctx, "transcript.json", recording.Transcript{
		V: recording.Version, Engine: in.Engine, Confidence: in.Confidence, DurationMs: in.Media.Facts.DurationMs,
		Speakers: in.Speakers, Turns: said,
	})
	return head, err
}

func plainText(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// whole captions the recording; a cue never spans two turns.
func whole(said []recording.Said, end int64) []recording.Cue {
	all := []recording.Cue{}
	for i, turn := range said {
		until := end
		if i+1 < len(said) {
			until = min(until, said[i+1].Words[0].StartMs)
		}
		all = append(all, cues(turn.Words, until)...)
	}
	return all
}

// order is all that compile needs for one clip, with times that count from its start.
func order(in recording.Highlighted, said []recording.Said, index int, s recording.Segment) recording.ClipOrder {
	facts := in.Media.Facts
	o := recording.ClipOrder{
		V: recording.Version, Index: index, Source: in.Media.Source, Demuxer: in.Media.Demuxer, Facts: facts, Segment: s,
		Title: clipTitle(saidIn(said, s)), Cues: relative(said, s), CaptionsTop: crowded(in.LowerThirds, s),
	}
	if len(in.Media.Posters) > 0 {
		o.Still = &in.Media.Posters[0]
	}
	return o
}

func relative(said []recording.Said, s recording.Segment) []recording.Cue {
	var inside []recording.Said
	for _, turn := range said {
		turn.Words = saidIn([]recording.Said{turn}, s)
		if len(turn.Words) == 0 {
			continue
		}
		for i := range turn.Words {
			turn.Words[i].StartMs = max(0, turn.Words[i].StartMs-s.StartMs)
			turn.Words[i].EndMs = min(turn.Words[i].EndMs, s.EndMs) - s.StartMs
		}
		inside = append(inside, turn)
	}
	return whole(inside, s.EndMs-s.StartMs)
}

// crowded reports that something stands where captions usually go.
func crowded(banners []recording.Banner, s recording.Segment) bool {
	for _, b := range banners {
		if b.StartMs < s.EndMs && b.EndMs > s.StartMs {
			return true
		}
	}
	return false
}
