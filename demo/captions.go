package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/media"
)

// reading is a cue and what stands in the picture while it is shown.
type reading struct {
	cue        string
	top, below string // read from the upper and the lower part of the picture
}

type readings []reading

// like is how well the cue was found: captions stand at the top or at the bottom.
func (r reading) like() float64 { return max(likeness(r.cue, r.top), likeness(r.cue, r.below)) }

// worst returns the least likeness, and how many cues are not alike enough.
func (rs readings) worst() (least float64, bad int) {
	least = 1
	for _, r := range rs {
		if r.like() < minLikeness {
			bad++
		}
		least = min(least, r.like())
	}
	return least, bad
}

// atTop counts the cues that were found at the top rather than at the bottom.
func (rs readings) atTop() int {
	n := 0
	for _, r := range rs {
		if likeness(r.cue, r.top) > likeness(r.cue, r.below) {
			n++
		}
	}
	return n
}

// readCaptions takes a picture from the middle of every cue of every clip and reads it. One run of the reader
// takes all pictures: they are listed in the order of the cues, upper part first.
func readCaptions(ctx context.Context, r result) (readings, error) {
	dir, err := os.MkdirTemp("", "captions-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	tools := media.Runner{Dir: dir}
	var found readings
	var frames []media.Frame
	for _, c := range r.manifest.Clips {
		for _, cue := range c.Cues {
			top, below := fmt.Sprintf("%dt.png", len(found)), fmt.Sprintf("%db.png", len(found))
			_, err := tools.Run(ctx, "ffmpeg", "-nostdin", "-v", "error", "-y", "-ss", fmt.Sprintf("%.3f", float64(cue.StartMs+cue.EndMs)/2000),
				"-i", tools.Local(filepath.Join(r.folder, c.File)),
				"-filter_complex", "split[a][b];[a]"+part("0")+"[t];[b]"+part("ih*0.72")+"[u]",
				"-map", "[t]", "-frames:v", "1", "-update", "1", "file:"+top, "-map", "[u]", "-frames:v", "1", "-update", "1", "file:"+below)
			if err != nil {
				return nil, fmt.Errorf("take a picture of %s: %w", c.File, err)
			}
			found = append(found, reading{cue: strings.Join(cue.Lines, " ")})
			frames = append(frames, media.Frame{Name: top}, media.Frame{Name: below})
		}
	}
	lines, err := tools.Read(ctx, frames)
	if err != nil {
		return nil, fmt.Errorf("read the captions: %w", err)
	}
	for _, l := range lines {
		at := &found[l.Frame/2]
		if l.Frame%2 == 0 {
			at.top += " " + l.Text
		} else {
			at.below += " " + l.Text
		}
	}
	return found, nil
}

// part cuts 28 % of the height out, doubles it and inverts it: readers expect dark letters on light paper.
func part(from string) string {
	return "crop=iw:ih*0.28:0:" + from + ",scale=iw*2:-1:flags=lanczos,format=gray,negate"
}
