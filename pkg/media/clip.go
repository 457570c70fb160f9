package media

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
)

// Clip says what to cut and what to burn into it.
type Clip struct {
	Source        string // path
	Demuxer       string
	Start, Length time.Duration
	Width, Height int    // of the source's picture as shown; 0 if it has none
	Still         string // path of the JPEG to show instead of a moving picture; "" for none
	Hold          bool   // the last picture stands until the end, if the source's ends before
	Sound         bool   // without it, and with Still, the source is not opened
	HDR           bool
	Captions      string // SRT file in Dir with a name of ours, and without markup; "" for none
	Top           bool   // captions go to the top
}

// Made is what a file of [Runner.Cut] holds. The zero value is a file that cannot be played.
type Made struct {
	Length         time.Duration
	Picture, Sound time.Duration // 0: it has none
	GaveUp         bool          // the tool failed over the source, and yet left this
}

// Cut makes the MP4 file out in Dir (H.264, AAC, playable while loading, no metadata of the source) and looks
// at it. What the source does not yield is missing from it, which is no error.
func (r Runner) Cut(ctx context.Context, c Clip, out string) (Made, error) {
	if err := os.Remove(filepath.Join(r.Dir, out)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Made{}, fmt.Errorf("remove an earlier clip: %w", err)
	}
	_, err := r.Run(ctx, "ffmpeg", c.arguments(r, out)...)
	if err != nil && !GaveUp(err) {
		return Made{}, err
	}
	made, lookErr := r.Probe(ctx, filepath.Join(r.Dir, out))
	for _, useless := range []error{fs.ErrNotExist, ErrEmpty, ErrFormat, ErrNoStreams} {
		if errors.Is(lookErr, useless) {
			return Made{}, nil
		}
	}
	if lookErr != nil {
		return Made{}, fmt.Errorf("look at the clip: %w", lookErr)
	}
	m := Made{Length: made.Duration, GaveUp: err != nil}
	if made.Video != nil {
		m.Picture = made.Video.Duration
	}
	if made.Audio != nil {
		m.Sound = made.Audio.Duration
	}
	return m, nil
}

func (c Clip) arguments(r Runner, out string) []string {
	args := append([]string{"-nostdin", "-hide_banner", "-v", "error", "-y", "-filter_threads", "1", "-max_error_rate", "1"}, c.inputs(r)...)
	args = append(args, c.maps()...)
	return append(args, "-vf", c.filters(), "-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-threads", "1",
		"-map_metadata", "-1", "-map_chapters", "-1", "-sn", "-dn", "-t", bound(c.Length),
		"-fflags", "+bitexact", "-movflags", "+faststart", "-f", "mp4", "file:"+out)
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
	if !c.Sound {
		return still
	}
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
	return append(maps, "-map", sound, "-af", "aresample=async=1:first_pts=0", "-c:a", "aac", "-b:a", "96k", "-ac", "2")
}

// filters pads the beginning of a source whose first frame comes late, and burns the captions last, at the
// final size.
func (c Clip) filters() string {
	var chain []string
	if c.HDR && c.Still == "" {
		chain = append(chain, ToneMap)
	}
	if c.Still == "" {
		chain = append(chain, fmt.Sprintf("fps=%d:start_time=0", clipRate))
	}
	if c.Hold {
		chain = append(chain, "tpad=stop=-1:stop_mode=clone")
	}
	if w, h := fit(c.Width, c.Height); c.Width > 0 && (c.Still != "" || w != c.Width || h != c.Height) {
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
	if c.Height > 0 {
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
