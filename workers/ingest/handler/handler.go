// Package handler is the ingest stage: it finds out whether a submitted file is a recording, decodes all of it
// once, and keeps what later stages need: the sound in the recogniser's format, poster frames, and where
// somebody may be speaking. The submitted file is only read. Whatever is wrong with it ends as a refusal with
// one sentence, or, if enough of it can be used, as a noted gap. Package worker is the caller.
package handler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// Names of the files that are made here.
const (
	audioFile = "audio.wav"
	stillFile = "poster1.jpg"
)

type ingest struct{}

// New returns the handler. It needs nothing.
func New(worker.Deps) (worker.Handler[recording.Source, recording.Media], error) {
	return ingest{}, nil
}

// Handle implements worker.Handler.
func (ingest) Handle(ctx context.Context, t worker.Task[recording.Source]) (recording.Media, error) {
	path, err := t.Objects.Path(ctx, t.Input.Object)
	if err != nil {
		return recording.Media{}, fmt.Errorf("fetch the recording: %w", err)
	}
	tools := media.Runner{Dir: t.Dir, Limits: media.Within(ctx, 2), Record: t.Ran} // two run side by side
	declared, err := tools.Probe(ctx, path)
	if err != nil {
		return recording.Media{}, refusal(err)
	}
	d := decode(ctx, tools, path, declared)
	facts, gaps, err := judge(declared, d)
	if err != nil {
		return recording.Media{}, refusal(err)
	}
	out := recording.Media{V: recording.Version, Source: t.Input.Object, Name: t.Input.Name, Demuxer: declared.Demuxer, Facts: facts}
	if err := keep(ctx, t, tools, d, &out); err != nil {
		return recording.Media{}, err
	}
	for _, gap := range gaps {
		t.Gap(gap.Code, gap.Sentence)
	}
	return out, nil
}

// decoded is what came out of the two streams.
type decoded struct {
	sound, picture       media.Decoded
	soundErr, pictureErr error
	speech               []recording.Span
	posters              []string
}

// decode decodes both streams to their ends, side by side: each is one tool on one core.
func decode(ctx context.Context, tools media.Runner, path string, declared media.Declared) decoded {
	var d decoded
	var both sync.WaitGroup
	if declared.Audio != nil {
		both.Go(func() {
			d.sound, d.speech, d.soundErr = tools.DecodeAudio(ctx, path, declared.Demuxer, audioFile)
		})
	}
	if declared.Video != nil {
		both.Go(func() { d.picture, d.posters, d.pictureErr = tools.DecodeVideo(ctx, path, declared) })
	}
	both.Wait()
	return d
}

// keep stores what was made, and makes a picture for a recording that has none.
func keep(ctx context.Context, t worker.Task[recording.Source], tools media.Runner, d decoded, out *recording.Media) error {
	if out.Facts.HasAudio {
		audio, err := t.Objects.Put(ctx, audioFile, t.Dir+"/"+audioFile)
		if err != nil {
			return fmt.Errorf("keep the sound: %w", err)
		}
		out.Audio, out.Speech = &audio, d.speech
	}
	posters := d.posters
	if out.Facts.StillImage {
		if err := tools.StillOf(ctx, audioFile, stillFile); err != nil {
			return fmt.Errorf("draw a picture of the sound: %w", err)
		}
		posters = []string{stillFile}
	}
	for _, name := range posters {
		poster, err := t.Objects.Put(ctx, name, t.Dir+"/"+name)
		if err != nil {
			return fmt.Errorf("keep a poster: %w", err)
		}
		out.Posters = append(out.Posters, poster)
	}
	return nil
}

// refusals are the ends of files that are at fault, each with the sentence its submitter reads.
var refusals = []struct {
	err            error
	code, sentence string
}{
	{media.ErrEmpty, "empty_file", "The file is empty."},
	{media.ErrNotRegular, "not_a_file", "What was submitted is not a regular file."},
	{media.ErrFormat, "not_a_recording", "The file is not a complete recording in a supported format (MP4, MOV, Matroska, WebM, AVI, WAV, MP3, Ogg, FLAC, AAC, MPEG or FLV); lists that point to other files are not followed."},
	{media.ErrNoStreams, "no_streams", "The file has neither picture nor sound in an encoding that can be read."},
	{media.ErrTooLarge, "too_many_pixels", fmt.Sprintf("The picture is larger than %d pixels per frame, the most that is worked on.", media.MaxPixels)},
	{media.ErrTooLong, "too_long", fmt.Sprintf("The recording is longer than %.0f hours, the most that is worked on.", media.MaxDuration.Hours())},
	{errNothing, "nothing_decodable", "No part of the recording can be decoded."},
	{media.ErrLimit, "too_costly", "The recording takes more computing than is allowed for one."},
}

// refusal turns an error that the file is to blame for into its end; other errors stay failures of ours.
func refusal(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return outcome.Reject(r.code, r.sentence)
		}
	}
	return err
}
