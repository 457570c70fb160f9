// Package handler makes one clip: it cuts a segment out of the recording and burns its captions.
//
// Every clip is one ffmpeg on one core, and any number of them may run in any order. The clip is looked at
// before it is handed on: what the recording does not yield is stood in for, left out or, if nothing is left,
// the whole clip is; each with a gap that says so. The worker calls it.
package handler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// Codes of gaps: a clip lacks a part of what was ordered, or is missing.
const (
	GapShort  = "clip_short"
	GapUnmade = "clip_unmade"
)

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
	clip, still, err := order(ctx, t)
	if err != nil {
		return recording.Clip{}, err
	}
	end, err := cutter{media.Runner{Dir: t.Dir, Limits: media.Within(ctx, 1), Record: t.Ran}, still}.cut(ctx, clip)
	if err != nil {
		return recording.Clip{}, fmt.Errorf("make a clip: %w", err)
	}
	name := fmt.Sprintf("Clip %d (%s to %s) ", t.Input.Index+1, clock(t.Input.Segment.StartMs), clock(t.Input.Segment.EndMs))
	out := recording.Clip{V: recording.Version, Index: t.Input.Index, Title: t.Input.Title, Segment: t.Input.Segment, Cues: t.Input.Cues}
	if end.unmade != "" {
		t.Gap(GapUnmade, name+end.unmade)
		return out, nil
	}
	for _, lack := range end.lacks {
		t.Gap(GapShort, name+lack)
	}
	video, err := t.Objects.Put(ctx, clipFile, filepath.Join(t.Dir, clipFile))
	if err != nil {
		return recording.Clip{}, fmt.Errorf("keep a clip: %w", err)
	}
	out.Video, out.DurationMs = &video, end.length.Milliseconds()
	return out, nil
}

// order puts what ffmpeg needs into the attempt's folder and says it in ffmpeg's terms. still is the path of the
// picture that may stand in for a moving one; "" if there is none.
func order(ctx context.Context, t task) (clip media.Clip, still string, err error) {
	in := t.Input
	clip = media.Clip{
		Demuxer: in.Demuxer, Start: millis(in.Segment.StartMs), Length: millis(in.Segment.EndMs - in.Segment.StartMs),
		Width: in.Facts.Width, Height: in.Facts.Height, Sound: in.Facts.HasAudio, HDR: in.Facts.HDR, Top: in.CaptionsTop,
	}
	if clip.Source, err = t.Objects.Path(ctx, in.Source); err != nil {
		return clip, "", fmt.Errorf("open the recording: %w", err)
	}
	if in.Still != nil {
		if still, err = t.Objects.Path(ctx, *in.Still); err != nil {
			return clip, "", fmt.Errorf("open the still: %w", err)
		}
	}
	if in.Facts.StillImage {
		clip.Still = still
	}
	if len(in.Cues) > 0 {
		clip.Captions = captionsFile
		if err := os.WriteFile(filepath.Join(t.Dir, captionsFile), []byte(recording.SRT(in.Cues)), 0o600); err != nil {
			return clip, "", fmt.Errorf("write the captions: %w", err)
		}
	}
	return clip, still, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func clock(ms int64) string { return fmt.Sprintf("%d:%02d", ms/60_000, ms/1000%60) }
