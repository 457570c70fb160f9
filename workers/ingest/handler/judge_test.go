package handler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

const second = time.Second

// whole is a recording of a hundred seconds that decodes as declared.
func whole() (media.Declared, decoded) {
	return media.Declared{
			Demuxer: "mov", Duration: 100 * second,
			Video: &media.VideoStream{Codec: "h264", Width: 640, Height: 360, Duration: 100 * second},
			Audio: &media.AudioStream{Codec: "aac", Duration: 100 * second},
		}, decoded{
			sound: media.Decoded{Duration: 100 * second}, picture: media.Decoded{Duration: 100 * second},
		}
}

func TestGapsAreWhatDidNotDecode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*media.Declared, *decoded)
		want   []string
	}{
		"nothing missing":                    {func(*media.Declared, *decoded) {}, nil},
		"two percent short":                  {func(_ *media.Declared, d *decoded) { d.picture.Duration, d.sound.Duration = 98*second, 98*second }, nil},
		"more than two percent":              {func(_ *media.Declared, d *decoded) { d.picture.Duration, d.sound.Duration = 98*second-1, 98*second-1 }, []string{"cut_short"}},
		"only the sound is short":            {func(_ *media.Declared, d *decoded) { d.sound.Duration = 50 * second }, []string{"uneven"}},
		"only the picture is short":          {func(_ *media.Declared, d *decoded) { d.picture.Duration = 50 * second }, []string{"uneven"}},
		"length of a stream unknown":         {func(m *media.Declared, d *decoded) { m.Audio.Duration = 0; d.sound.Duration = 50 * second }, []string{"uneven"}},
		"a picture that is declared shorter": {func(m *media.Declared, d *decoded) { m.Video.Duration, d.picture.Duration = 50*second, 50*second }, []string{"uneven"}},
		"uneven by two percent":              {func(m *media.Declared, d *decoded) { m.Video.Duration, d.picture.Duration = 98*second, 98*second }, nil},
		"no length declared": {func(m *media.Declared, d *decoded) {
			m.Duration, m.Audio.Duration, m.Video.Duration = 0, 0, 0
			d.sound.Duration, d.picture.Duration = second, second
		}, nil},
		"a few complaints": {func(_ *media.Declared, d *decoded) { d.sound.Errors = damageLines }, nil},
		"many complaints":  {func(_ *media.Declared, d *decoded) { d.sound.Errors = damageLines + 1 }, []string{"damaged"}},
		"sound cannot decode": {func(_ *media.Declared, d *decoded) {
			d.soundErr, d.sound.Duration = &media.ExitError{Tool: "ffmpeg", Code: 1}, 0
		}, []string{"audio_unreadable"}},
		"sound decoded, then its tool gave up":   {func(_ *media.Declared, d *decoded) { d.soundErr = &media.ExitError{Tool: "ffmpeg", Code: 69} }, []string{"damaged"}},
		"picture decoded, then its tool gave up": {func(_ *media.Declared, d *decoded) { d.pictureErr = &media.ExitError{Tool: "ffmpeg", Code: 69} }, []string{"damaged"}},
		"sound is empty":                         {func(_ *media.Declared, d *decoded) { d.sound.Duration = leastSound - 1 }, []string{"audio_unreadable"}},
		"no sound":                               {func(m *media.Declared, d *decoded) { m.Audio = nil; d.sound.Duration = 0 }, []string{"no_audio"}},
		"sound in an encoding that is not read":  {func(m *media.Declared, d *decoded) { m.Audio, m.UnreadAudio, d.sound.Duration = nil, true, 0 }, []string{"audio_unreadable"}},
		"picture in an encoding that is not read": {func(m *media.Declared, d *decoded) {
			m.Video, m.UnreadVideo, d.picture.Duration = nil, true, 0
		}, []string{"video_unreadable"}},
		"picture cannot decode": {func(_ *media.Declared, d *decoded) {
			d.pictureErr, d.picture.Duration = &media.ExitError{Tool: "ffmpeg", Code: 1}, 0
		}, []string{"video_unreadable"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := whole()
			c.change(&m, &d)
			_, gaps, err := judge(m, d)
			if err != nil || !slices.Equal(codes(gaps), c.want) {
				t.Fatalf("got %v, %v", gaps, err)
			}
		})
	}
}

func TestAShortRecordingMayBeASecondShort(t *testing.T) {
	if isShort(3*second, 2*second) || !isShort(3*second, 2*second-1) || isShort(3*second, 5*second) {
		t.Fatal("the bound is a second")
	}
}

func TestFactsAreWhatDecodes(t *testing.T) {
	m, d := whole()
	d.picture.Duration, d.pictureErr = 0, &media.ExitError{Tool: "ffmpeg", Code: 1}
	facts, _, err := judge(m, d)
	if err != nil || facts.HasVideo || !facts.StillImage || facts.VideoCodec != "" || facts.Width != 0 || facts.DurationMs != 100_000 {
		t.Fatalf("got %+v, %v", facts, err)
	}
}

func TestNothingDecodableIsRefused(t *testing.T) {
	m, _ := whole()
	if _, _, err := judge(m, decoded{}); !errors.Is(err, errNothing) {
		t.Fatalf("got %v", err)
	}
}

func TestALengthThatNoHeaderDeclaredIsBoundedToo(t *testing.T) {
	m, d := whole()
	m.Duration, d.sound.Duration = 0, media.MaxDuration
	if _, _, err := judge(m, d); !errors.Is(err, media.ErrTooLong) {
		t.Fatalf("got %v", err)
	}
}

func TestOurFailuresAreNotTheFiles(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want outcome.Kind
	}{
		"missing tool": {media.ErrMissing, outcome.KindRetry},
		"ended":        {context.Canceled, outcome.KindRetry},
		"full disk":    {errors.New("write: no space left"), outcome.KindRetry},
		"drained":      {outcome.ErrDraining, outcome.KindInterrupted},
		"limit":        {media.ErrLimit, outcome.KindReject},
	} {
		m, d := whole()
		d.pictureErr = c.err
		if _, _, err := judge(m, d); outcome.Of(refusal(err)).Kind != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
