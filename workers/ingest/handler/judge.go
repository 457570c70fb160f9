package handler

import (
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// How far what decodes may fall short of what was declared before it is called a gap, and what counts as damage.
const (
	shortTime   = time.Second
	shortShare  = 50                     // one part in that many, 2 %
	damageLines = 10                     // complaints of a decoder; a few are common in sound files
	leastSound  = 100 * time.Millisecond // less is nothing
)

var errNothing = errors.New("nothing can be decoded")

// judge decides from what was decoded, not from what was declared or from exit codes, what the recording is
// and what is missing from it.
func judge(declared media.Declared, d decoded) (recording.Facts, []outcome.Gap, error) {
	if err := ours(d); err != nil {
		return recording.Facts{}, nil, err
	}
	facts := recording.Facts{
		HasAudio: declared.Audio != nil && d.sound.Duration >= leastSound,
		HasVideo: declared.Video != nil && d.picture.Duration > 0,
	}
	switch {
	case !facts.HasAudio && !facts.HasVideo:
		return recording.Facts{}, nil, errNothing
	case max(d.sound.Duration, d.picture.Duration) >= media.MaxDuration:
		return recording.Facts{}, nil, media.ErrTooLong // its header did not say
	}
	facts.StillImage = !facts.HasVideo
	if facts.HasAudio {
		facts.AudioCodec = declared.Audio.Codec
		facts.DurationMs = d.sound.Duration.Milliseconds()
	}
	if v := declared.Video; facts.HasVideo {
		facts.VideoCodec, facts.Width, facts.Height, facts.Rotation, facts.HDR = v.Codec, v.Width, v.Height, v.Rotation, v.HDR
		facts.DurationMs = max(facts.DurationMs, d.picture.Duration.Milliseconds())
	}
	return facts, gaps(declared, d, facts), nil
}

// ours returns a failure that says nothing about what can be decoded: a missing or killed tool, a full disk, an
// ended context, a limit. It ends the attempt even if the other stream is well: a recording must not lose its
// sound or picture to the machine.
func ours(d decoded) error {
	for _, err := range []error{d.soundErr, d.pictureErr} {
		if err != nil && !media.GaveUp(err) {
			return err
		}
	}
	return nil
}

func gaps(declared media.Declared, d decoded, facts recording.Facts) []outcome.Gap {
	var gaps []outcome.Gap
	note := func(when bool, code, sentence string) {
		if when {
			gaps = append(gaps, outcome.Gap{Code: code, Sentence: sentence})
		}
	}
	note(declared.Audio == nil && !declared.UnreadAudio, "no_audio", "The recording has no sound, so nothing could be transcribed.")
	note((declared.Audio != nil || declared.UnreadAudio) && !facts.HasAudio, "audio_unreadable", "The sound of the recording could not be decoded, so nothing could be transcribed.")
	note((declared.Video != nil || declared.UnreadVideo) && !facts.HasVideo, "video_unreadable", "The picture of the recording could not be decoded; a still image stands in for it.")
	length := max(d.sound.Duration, d.picture.Duration)
	short := isShort(declared.Duration, length) ||
		facts.HasAudio && isShort(declared.Audio.Duration, d.sound.Duration) ||
		facts.HasVideo && isShort(declared.Video.Duration, d.picture.Duration)
	uneven := facts.HasAudio && facts.HasVideo && (isShort(d.sound.Duration, d.picture.Duration) || isShort(d.picture.Duration, d.sound.Duration))
	note(uneven, "uneven", fmt.Sprintf("The picture could be read for %s and the sound for %s; where one of them is missing, clips show a still picture or are silent.",
		d.picture.Duration.Round(time.Second), d.sound.Duration.Round(time.Second)))
	note(short && !uneven, "cut_short", fmt.Sprintf("Only the first %s of %s could be read.", least(d, facts).Round(time.Second), declared.Duration.Round(time.Second)))
	damaged := max(d.sound.Errors, d.picture.Errors) > damageLines || facts.HasAudio && d.soundErr != nil || facts.HasVideo && d.pictureErr != nil
	note(damaged && !short, "damaged", "Parts of the recording are damaged, so some words or pictures may be missing.")
	return gaps
}

// isShort reports whether a stream ended well before the end that was declared or that the other one reached; 0
// declares nothing.
func isShort(declared, got time.Duration) bool {
	return declared > 0 && declared-got > max(shortTime, declared/shortShare)
}

// least is how far the recording is complete: the shorter of its streams.
func least(d decoded, facts recording.Facts) time.Duration {
	switch {
	case !facts.HasAudio:
		return d.picture.Duration
	case !facts.HasVideo:
		return d.sound.Duration
	default:
		return min(d.sound.Duration, d.picture.Duration)
	}
}
