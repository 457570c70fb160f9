package handler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
)

// How far picture or sound may fall short of the order before that is said, and how much of the recording a
// clip must show or let hear.
const (
	slack    = 500 * time.Millisecond
	leastUse = time.Second
)

// errTools is a failure that is not the recording's.
var errTools = errors.New("a clip of the still picture alone cannot be made either")

// cutter makes one clip as well as the recording allows.
type cutter struct {
	tools media.Runner
	still string // path of a picture that may stand in for the moving one; "" for none
}

// ending is how the making of a clip ended. Sentences continue the clip's name.
type ending struct {
	length time.Duration
	lacks  []string
	unmade string // why there is no clip; "" if there is one
}

func (c cutter) cut(ctx context.Context, clip media.Clip) (ending, error) {
	read, err := c.tools.Cut(ctx, clip, clipFile)
	made := read
	if err == nil && clip.Still == "" && read.Picture < clip.Length-slack {
		made, err = c.standIn(ctx, clip, read)
	}
	switch {
	case errors.Is(err, media.ErrLimit):
		return ending{unmade: "could not be made, because it takes more computing than is allowed for one."}, nil
	case err != nil:
		return ending{}, err
	case made.Picture == 0 || !isOfUse(clip, read):
		return ending{unmade: "could not be made, because too little of that part of the recording could be read."}, c.blame(ctx, clip)
	}
	return ending{length: made.Length, lacks: lacks(clip, read)}, nil
}

// standIn cuts again with a picture to the end: the last that could be read, or the still.
func (c cutter) standIn(ctx context.Context, clip media.Clip, read media.Made) (media.Made, error) {
	switch {
	case read.Picture > 0:
		clip.Hold = true
	case c.still != "":
		clip.Still = c.still
	default:
		return media.Made{}, nil
	}
	return c.tools.Cut(ctx, clip, clipFile)
}

// isOfUse reports that a clip holds more of the recording than a glimpse.
func isOfUse(clip media.Clip, read media.Made) bool {
	use := read.Sound
	if clip.Still == "" {
		use = max(use, read.Picture)
	}
	return use >= min(leastUse, clip.Length/2)
}

// blame makes a clip without the recording. If that fails too, the recording is not at fault.
func (c cutter) blame(ctx context.Context, clip media.Clip) error {
	if c.still == "" {
		return nil
	}
	clip.Still, clip.Sound = c.still, false
	made, err := c.tools.Cut(ctx, clip, clipFile)
	if err == nil && made.Picture < clip.Length-slack {
		err = errTools
	}
	return err
}

// lacks says what of the order could not be read.
func lacks(clip media.Clip, read media.Made) []string {
	var lacks []string
	switch {
	case clip.Still != "" || read.Picture >= clip.Length-slack:
	case read.Picture == 0:
		lacks = append(lacks, "shows a still picture, because no moving one could be read there.")
	default:
		lacks = append(lacks, fmt.Sprintf("stands still after %.1f seconds, because no more of its picture could be read.", read.Picture.Seconds()))
	}
	switch {
	case !clip.Sound || read.Sound >= clip.Length-slack:
	case read.Sound == 0:
		lacks = append(lacks, "has no sound, because none could be read there.")
	default:
		lacks = append(lacks, fmt.Sprintf("is silent after %.1f seconds, because no more of its sound could be read.", read.Sound.Seconds()))
	}
	if read.GaveUp && len(lacks) == 0 {
		lacks = append(lacks, "may lack pictures or words, because the recording is damaged there.")
	}
	return lacks
}
