package sample

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Backgrounds differ enough in brightness for a change of slide to be a change of scene.
var backgrounds = []string{"0x14324f", "0x6b2d3c", "0x2f5d3a", "0x4a3b6b", "0x7a5a1e", "0x1f5f66"}

const headingWords = 4 // of the turn, shown on its slide

// draw renders one slide a turn, lays the speech under them and writes out.mp4. Captions are burned
// into clips at the top or the bottom, so the heading keeps to the middle.
func draw(ctx context.Context, dir string, truth Truth) error {
	var graph strings.Builder
	for i, turn := range truth.Turns {
		if err := writeTexts(dir, i, turn); err != nil {
			return err
		}
		fmt.Fprintf(&graph, "%s[v%d];\n", slide(truth, i), i)
	}
	for i := range truth.Turns {
		fmt.Fprintf(&graph, "[v%d]", i)
	}
	fmt.Fprintf(&graph, "concat=n=%d:v=1:a=0[v]\n", len(truth.Turns))
	if err := os.WriteFile(filepath.Join(dir, "graph.txt"), []byte(graph.String()), 0o600); err != nil {
		return err
	}
	return ffmpeg(ctx, dir, "-f", "s16le", "-ar", fmt.Sprint(sampleRate), "-ac", "1", "-i", "speech.raw",
		"-filter_complex_script", "graph.txt", "-map", "[v]", "-map", "0:a",
		"-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-c:a", "aac", "-b:a", "96k",
		"-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_metadata", "-1",
		"-movflags", "+faststart", "out.mp4")
}

// slide is the filter chain of one turn: it lasts until the next turn begins.
func slide(truth Truth, i int) string {
	start, end := int64(0), truth.DurationMs
	if i > 0 {
		start = truth.Turns[i].StartMs
	}
	if i+1 < len(truth.Turns) {
		end = truth.Turns[i+1].StartMs
	}
	chain := []string{
		fmt.Sprintf("color=c=%s:s=%dx%d:r=25:d=%d.%03d", backgrounds[i%len(backgrounds)], Width, Height, (end-start)/1000, (end-start)%1000),
		text("count", i, 16, "white@0.7", "x=40:y=112"),
		text("heading", i, 26, "white", "x=40:y=140"),
	}
	if truth.Turns[i].Banner {
		chain = append(chain, "drawbox=x=0:y=274:w=iw:h=70:color=black@0.75:t=fill",
			text("name", i, nameSize(truth.Turns[i].Name), "white", "x=40:y=284"),
			text("title", i, titleSize(truth.Turns[i].Title), "white", "x=40:y=316"))
	}
	return strings.Join(append(chain, "format=yuv420p"), ",")
}

func text(kind string, i, size int, colour, place string) string {
	return fmt.Sprintf("drawtext=font=DejaVu Sans:textfile=%s%d.txt:expansion=none:fontsize=%d:fontcolor=%s:%s", kind, i, size, colour, place)
}

// A long name or title is drawn smaller, so that it ends before the edge: a letter of DejaVu Sans is
// about two thirds of its size wide.
func nameSize(s string) int  { return min(24, 840/max(1, utf8.RuneCountInString(s))) }
func titleSize(s string) int { return min(18, 840/max(1, utf8.RuneCountInString(s))) }

func writeTexts(dir string, i int, turn Spoken) error {
	words := strings.Fields(turn.Words)
	texts := map[string]string{
		"count":   fmt.Sprintf("slide %d", i+1),
		"heading": strings.Trim(strings.Join(words[:min(headingWords, len(words))], " "), ",.;:"),
		"name":    turn.Name,
		"title":   turn.Title,
	}
	for kind, content := range texts {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%d.txt", kind, i)), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
