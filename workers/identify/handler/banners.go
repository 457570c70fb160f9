package handler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// banner is text that stood in the lower third for a while; name and title are empty when it names nobody.
type banner struct {
	from, to    int64 // milliseconds
	text        string
	name, title string
	confidence  float64 // of the name's reading, 0 to 100
}

// bannersOf joins the lines of each still, lets a still stand until the next one, and joins stills that show
// the same. Readings of one name are settled to the most trusted one.
func bannersOf(frames []media.Frame, lines []media.Line, length time.Duration) []banner {
	var banners []banner
	for i, f := range frames {
		to := length
		if i+1 < len(frames) {
			to = frames[i+1].At
		}
		onFrame := linesOf(lines, i)
		if len(onFrame) == 0 || to <= f.At {
			continue
		}
		b := read(onFrame)
		b.from, b.to = f.At.Milliseconds(), to.Milliseconds()
		if n := len(banners); n > 0 && banners[n-1].to == b.from && same(banners[n-1], b) {
			banners[n-1].to = b.to
			continue
		}
		banners = append(banners, b)
	}
	settle(banners)
	return banners
}

func linesOf(lines []media.Line, frame int) []media.Line {
	var on []media.Line
	for _, l := range lines {
		if l.Frame == frame {
			on = append(on, l)
		}
	}
	slices.SortStableFunc(on, func(a, b media.Line) int { return cmp.Compare(a.Top, b.Top) })
	return on
}

// leastScore of a line that is taken for a name: its shape alone is not enough, "River Park News" has it too.
const leastScore = 2

// read finds the name and, right under it, the title. Of several lines that could be names it takes the
// likeliest, and among equals the topmost, preferring one with a line under it.
func read(lines []media.Line) banner {
	texts := make([]string, len(lines))
	best, bestScore := -1, leastScore-1
	for i, l := range lines {
		texts[i] = l.Text
		score := nameScore(l.Text)
		if score > 0 && i+1 < len(lines) {
			score++
		}
		if score > bestScore {
			best, bestScore = i, score
		}
	}
	b := banner{text: strings.Join(texts, " / ")}
	if best >= 0 {
		b.name, b.confidence = lines[best].Text, lines[best].Confidence
		if best+1 < len(lines) {
			b.title = lines[best+1].Text
		}
	}
	return b
}

func same(a, b banner) bool {
	if a.name != "" || b.name != "" {
		return a.name != "" && b.name != "" && alike(a.name, b.name)
	}
	return alike(a.text, b.text)
}

// settle gives banners that show alike names the reading that stood longest, weighted by confidence.
func settle(banners []banner) {
	weight := map[[2]string]float64{}
	for _, b := range banners {
		weight[[2]string{b.name, b.title}] += b.confidence * float64(b.to-b.from)
	}
	for i := range banners {
		best := [2]string{banners[i].name, banners[i].title}
		for reading, w := range weight {
			if reading[0] != "" && alike(reading[0], banners[i].name) && (w > weight[best] || (w == weight[best] && reading[0]+reading[1] < best[0]+best[1])) {
				best = reading
			}
		}
		banners[i].name, banners[i].title = best[0], best[1]
	}
}

// spans returns what captions have to keep clear of.
func spans(banners []banner) []recording.Banner {
	out := make([]recording.Banner, len(banners))
	for i, b := range banners {
		out[i] = recording.Banner{StartMs: b.from, EndMs: b.to, Text: b.text}
	}
	return out
}
