// Package handler makes one clip: it cuts a segment out of the recording and burns its captions.
//
// Every clip is one ffmpeg on one core, and any number of them may run in any order. The clip is looked at
// before it is handed on; one that lost part of its picture or sound is kept with a gap. The worker calls it.
package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// GapShort says that a clip lacks a part of what was ordered.
const GapShort = "clip_short"

// Names in the attempt's own folder. Nothing the submitter named reaches a filter.
const (
	captionsFile = "captions.srt"
	clipFile     = "clip.mp4"
)

type task = worker.Task[recording.ClipOrder]

type handler struct{}

// New makes the stage's handler.
func New(worker.Deps) (worker.Handler[recording.ClipOrder, recording.Clip], error) {
	return handler{}, nil
}

// Handle implements worker.Handler.
func (handler) Handle(ctx context.Context, t task) (recording.Clip, error) {
	clip, err := order(ctx, t)
	if err != nil {
		return recording.Clip{}, err
	}
	length, err := media.Runner{Dir: t.Dir, Record: t.Ran}.Cut(ctx, clip, clipFile)
	switch {
	case errors.Is(err, media.ErrOutput) && length > 0:
		t.Gap(GapShort, fmt.Sprintf("Clip %d lacks a part of its picture or sound, because the recording is damaged there.", t.Input.Index+1))
	case err != nil:
		return recording.Clip{}, fmt.Errorf("make a clip: %w", err)
	}
	video, err := t.Objects.Put(ctx, clipFile, filepath.Join(t.Dir, clipFile))
	if err != nil {
		return recording.Clip{}, fmt.Errorf("keep a clip: %w", err)
	}
	return recording.Clip{
		V: recording.Version, Index: t.Input.Index, Title: t.Input.Title, Segment: t.Input.Segment,
		Video: video, DurationMs: length.Milliseconds(), Cues: t.Input.Cues,
	}, nil
}

// order puts what ffmpeg needs into the attempt's folder and says it in ffmpeg's terms.
func order(ctx context.Context, t task) (media.Clip, error) {
	in := t.Input
	clip := media.Clip{
		Demuxer: in.Demuxer, Start: millis(in.Segment.StartMs), Length: millis(in.Segment.EndMs - in.Segment.StartMs),
		Width: in.Facts.Width, Height: in.Facts.Height, Sound: in.Facts.HasAudio, HDR: in.Facts.HDR, Top: in.CaptionsTop,
	}
	var err error
	if clip.Source, err = t.Objects.Path(ctx, in.Source); err != nil {
		return clip, fmt.Errorf("open the recording: %w", err)
	}
	if in.Facts.StillImage {
		if clip.Still, err = t.Objects.Path(ctx, *in.Still); err != nil {
			return clip, fmt.Errorf("open the still: %w", err)
		}
	}
	if len(in.Cues) > 0 {
		clip.Captions = captionsFile
		if err := os.WriteFile(filepath.Join(t.Dir, captionsFile), []byte(recording.SRT(in.Cues)), 0o600); err != nil {
			return clip, fmt.Errorf("write the captions: %w", err)
		}
	}
	return clip, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
