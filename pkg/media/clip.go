package media

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// How clips look.
const (
	MaxClipSide = 1280 // pixels of the longer side; larger pictures are scaled down

	clipRate    = 25 // frames a second, also of sources with a varying rate
	stillRate   = 5
	captionSize = 20 // in libass's units of 1/288 of the height, for pictures wide enough
	clipSlack   = 500 * time.Millisecond
)

// Clip says what to cut and what to burn into it.
type Clip struct {
	Source        string // path
	Demuxer       string
	Start, Length time.Duration
	Width, Height int    // of the source's picture as shown; not used with Still
	Still         string // path of the JPEG to show instead of a moving picture; "" for none
	Sound         bool
	HDR           bool
	Captions      string // SRT file in Dir with a name of ours, and without markup; "" for none
	Top           bool   // captions go to the top
}

// Cut makes the MP4 file out in Dir (H.264, AAC, playable while loading, no metadata of the source) and
// returns how long it is. A file without a picture, or shorter than ordered by more than half a second,
// is returned with its length and an error that matches ErrOutput.
func (r Runner) Cut(ctx context.Context, c Clip, out string) (time.Duration, error) {
	args := append([]string{"-nostdin", "-hide_banner", "-v", "error", "-y", "-filter_threads", "1"}, c.inputs(r)...)
	args = append(args, c.maps()...)
	args = append(args, "-vf", c.filters(), "-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-threads", "1",
		"-map_metadata", "-1", "-map_chapters", "-1", "-sn", "-dn", "-t", bound(c.Length),
		"-fflags", "+bitexact", "-movflags", "+faststart", "-f", "mp4", "file:"+out)
	if _, err := r.Run(ctx, "ffmpeg", args...); err != nil {
		return 0, err
	}
	made, err := r.Probe(ctx, filepath.Join(r.Dir, out))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: the clip: %w", ErrOutput, err)
	case made.Video == nil || made.Video.Duration < c.Length-clipSlack:
		return made.Duration, fmt.Errorf("%w: the clip's picture is too short", ErrOutput)
	case c.Sound && (made.Audio == nil || made.Audio.Duration < c.Length-clipSlack):
		return made.Duration, fmt.Errorf("%w: the clip's sound is too short", ErrOutput)
	}
	return made.Duration, nil
}

// inputs puts the still picture first, so that the picture is always in input 0.
func (c Clip) inputs(r Runner) []string {
	source := []string{"-threads", "1", "-protocol_whitelist", "file", "-format_whitelist", c.Demuxer, "-max_pixels", strconv.Itoa(MaxPixels),
		"-f", c.Demuxer, "-ss", bound(c.Start), "-t", bound(c.Length), "-i", r.Local(c.Source)}
	if c.Still == "" {
		return source
	}
	still := []string{"-threads", "1", "-protocol_whitelist", "file", "-format_whitelist", "image2", "-max_pixels", strconv.Itoa(MaxPixels),
		"-f", "image2", "-pattern_type", "none", "-loop", "1", "-framerate", strconv.Itoa(stillRate), "-t", bound(c.Length), "-i", r.Local(c.Still)}
	return append(still, source...)
}

func (c Clip) maps() []string {
	sound := "0:a:0"
	if c.Still != "" {
		sound = "1:a:0"
	}
	maps := []string{"-map", "0:V:0"}
	if !c.Sound {
		return append(maps, "-an")
	}
	return append(maps, "-map", sound, "-c:a", "aac", "-b:a", "96k", "-ac", "2")
}

// filters pads the beginning of a source whose first frame comes late, and burns the captions last, at the
// final size.
func (c Clip) filters() string {
	var chain []string
	if c.HDR {
		chain = append(chain, ToneMap)
	}
	if c.Still == "" {
		chain = append(chain, fmt.Sprintf("fps=%d:start_time=0", clipRate))
	}
	if w, h := fit(c.Width, c.Height); c.Still == "" && (w != c.Width || h != c.Height) {
		chain = append(chain, fmt.Sprintf("scale=%d:%d", w, h))
	}
	if c.Captions != "" {
		chain = append(chain, fmt.Sprintf("subtitles=%s:force_style='%s'", c.Captions, c.style()))
	}
	return strings.Join(append(chain, "setsar=1", "format=yuv420p"), ",")
}

// style is white on a dark box. A line of 42 characters must fit into a narrow picture too: a character of
// DejaVu Sans at a libass size is about half as wide as it is high.
func (c Clip) style() string {
	size := float64(captionSize)
	if c.Still == "" && c.Height > 0 {
		size = min(size, 288*float64(c.Width)/float64(c.Height)/22)
	}
	alignment := 2
	if c.Top {
		alignment = 6 // the centre of the top, in the older numbering that force_style takes
	}
	return fmt.Sprintf("Fontname=DejaVu Sans,Fontsize=%.1f,MarginV=16,Alignment=%d,BorderStyle=4,BackColour=&H60000000,Outline=1,Shadow=1", size, alignment)
}

// fit scales a size down to MaxClipSide and makes it even, as the encoder needs.
func fit(width, height int) (int, int) {
	if side := max(width, height); side > MaxClipSide {
		width, height = width*MaxClipSide/side, height*MaxClipSide/side
	}
	return max(2, width/2*2), max(2, height/2*2)
}
