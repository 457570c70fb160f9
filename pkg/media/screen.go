package media

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// How the lower third is looked at.
const (
	shortestStep  = 500 * time.Millisecond // between two looks
	sceneChange   = 0.02                   // share of the crop that must have changed to look again; plain slides score low
	maxFrames     = 400                    // that are read; a long recording is looked at in longer steps
	minConfidence = 60                     // of tesseract, 0 to 100; below it letters are guesses
	frameFormat   = "lower%06d.png"
	frameList     = "lower.txt"
	ocrTime       = 10 * time.Minute
)

// Frame is a still of the lower third, taken because the picture there had changed.
type Frame struct {
	At   time.Duration
	Name string // PNG file in the runner's Dir
}

// Line is one line of text on a frame.
type Line struct {
	Frame      int     // index of the frame it stands on
	Top        int     // pixels from the top of the crop
	Height     int     // of the tallest word, in pixels
	Confidence float64 // mean over its words, 0 to 100
	Text       string
}

// lookStep keeps the number of looks, and so of stills, within the budget.
func lookStep(length time.Duration) time.Duration {
	return max(shortestStep, (length / maxFrames).Round(time.Millisecond))
}

// LowerThirds takes a still of the lower third of the picture whenever something changed there; what stands there can be taken to stand until the next still.
func (r Runner) LowerThirds(ctx context.Context, path, demuxer string, length time.Duration) ([]Frame, error) {
	step := lookStep(length).Milliseconds()
	filter := fmt.Sprintf("fps=1000/%d,crop=iw:ih*0.3:0:ih*0.7,scale='min(1280,iw)':-2,select='eq(n,0)+gt(scene,%g)',format=gray", step, sceneChange)
	args := append(r.input(path, demuxer), "-map", "0:V:0", "-an", "-sn", "-dn", "-map_metadata", "-1", "-vf", filter,
		"-fps_mode", "vfr", "-enc_time_base", fmt.Sprintf("%d/1000", step), "-frame_pts", "1", "-frames:v", strconv.Itoa(maxFrames), "file:"+frameFormat)
	if _, err := r.Run(ctx, "ffmpeg", args...); err != nil {
		return nil, err
	}
	return r.frames(step)
}

// frames lists the stills in Dir, which are numbered in steps of so many milliseconds.
func (r Runner) frames(step int64) ([]Frame, error) {
	entries, err := os.ReadDir(r.Dir) // in order of their names
	if err != nil {
		return nil, fmt.Errorf("list the stills: %w", err)
	}
	var frames []Frame
	for _, entry := range entries {
		var number int64
		if _, err := fmt.Sscanf(entry.Name(), frameFormat, &number); err == nil {
			frames = append(frames, Frame{At: time.Duration(number*step) * time.Millisecond, Name: entry.Name()})
		}
	}
	return frames, nil
}

// Read reads the text on frames, with one run of tesseract for all of them: loading its model costs more than
// reading a frame. Lines come in the order of frames, top to bottom.
func (r Runner) Read(ctx context.Context, frames []Frame) ([]Line, error) {
	if len(frames) == 0 {
		return nil, nil
	}
	var list strings.Builder
	for _, f := range frames {
		list.WriteString(f.Name + "\n")
	}
	if err := os.WriteFile(filepath.Join(r.Dir, frameList), []byte(list.String()), 0o600); err != nil {
		return nil, fmt.Errorf("list the stills: %w", err)
	}
	r.Limits.CPU = min(orDefault(r.Limits.CPU, DefaultCPU), ocrTime)
	out, err := r.Run(ctx, "tesseract", frameList, "-", "--psm", "6", "-l", "eng", "tsv")
	if err != nil {
		return nil, err
	}
	return parseTSV(out.Stdout, len(frames)), nil
}

// parseTSV joins the words of tesseract's table (level, page, block, paragraph, line, word, left, top, width,
// height, confidence, text) into lines, and leaves out words that it is not sure of.
func parseTSV(table []byte, pages int) []Line {
	var lines []Line
	var place string // of the line being joined
	var words int
	rows := bufio.NewScanner(bytes.NewReader(table))
	rows.Buffer(nil, 1<<20)
	for rows.Scan() {
		cells := strings.Split(rows.Text(), "\t")
		if len(cells) != 12 || strings.TrimSpace(cells[11]) == "" {
			continue
		}
		page, err := strconv.Atoi(cells[1])
		confidence, err2 := strconv.ParseFloat(cells[10], 64)
		if err != nil || err2 != nil || page < 1 || page > pages || !(confidence > minConfidence) {
			continue
		}
		top, _ := strconv.Atoi(cells[7]) // a geometry that cannot be read orders the line first
		height, _ := strconv.Atoi(cells[9])
		text := strings.TrimSpace(cells[11])
		if at := strings.Join(cells[1:5], "/"); at != place {
			place, words = at, 0
			lines = append(lines, Line{Frame: page - 1, Top: top})
		}
		l := &lines[len(lines)-1]
		l.Confidence = (l.Confidence*float64(words) + confidence) / float64(words+1)
		l.Height = max(l.Height, height)
		l.Text = strings.TrimSpace(l.Text + " " + text)
		words++
	}
	return lines
}

// Still takes the frame at a time as a JPEG file in Dir, at most 1280 pixels wide.
func (r Runner) Still(ctx context.Context, path, demuxer string, at time.Duration, out string) error {
	args := append(r.input(path, demuxer, "-ss", bound(at)), "-map", "0:V:0", "-an",
		"-map_metadata", "-1", "-vf", "scale='min(1280,iw)':-2,format=yuvj420p", "-frames:v", "1", "-q:v", "4", "file:"+out)
	if _, err := r.Run(ctx, "ffmpeg", args...); err != nil {
		return err
	}
	return r.exists(out)
}
