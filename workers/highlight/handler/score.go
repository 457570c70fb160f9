package handler

import (
	"cmp"
	"math"
	"slices"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// How many clips a recording gives: one for every perClip of its length, between fewest and most.
const (
	perClip = 12_000 // milliseconds
	fewest  = 3
	most    = 12
)

func wanted(durationMs int64) int {
	return int(min(max(durationMs/perClip, fewest), most))
}

// pick is a passage that was chosen. A larger score is better.
type pick struct {
	passage
	score float64
}

// choose takes the best passages, the best first. It knows word frequency and nothing of meaning: a passage
// is worth the mean weight of its terms, where a term weighs its share of all terms and less once a chosen
// passage has used it (Nenkova and Vanderwende, "The Impact of Frequency on Summarization", 2005).
func choose(candidates []passage, want int) []pick {
	weight := shares(candidates)
	left := slices.Clone(candidates)
	var chosen []pick
	for len(left) > 0 && len(chosen) < want {
		best, score := 0, -1.0
		for i, p := range left {
			if worth := p.worth(weight); worth > score {
				best, score = i, worth
			}
		}
		for _, term := range terms(left[best].words) {
			weight[term] *= weight[term]
		}
		chosen = append(chosen, pick{left[best], score})
		left = slices.Delete(left, best, best+1)
	}
	return chosen
}

func shares(candidates []passage) map[string]float64 {
	weight := map[string]float64{}
	total := 0.0
	for _, p := range candidates {
		for _, term := range terms(p.words) {
			weight[term]++
			total++
		}
	}
	for term := range weight {
		weight[term] /= total
	}
	return weight
}

// worth lowers the mean weight for a passage that was recognised badly: what is probably wrong should not
// stand for the recording.
func (p passage) worth(weight map[string]float64) float64 {
	found := terms(p.words)
	if len(found) == 0 {
		return 0
	}
	sum, sure := 0.0, 0.0
	for _, term := range found {
		sum += weight[term]
	}
	for _, w := range p.words {
		sure += w.Confidence
	}
	return sum / float64(len(found)) * math.Sqrt(sure/float64(len(p.words)))
}

// segments puts picks in order of time, with a little room around their words.
func segments(picked []pick, durationMs int64) []recording.Segment {
	found := []recording.Segment{}
	for _, p := range picked {
		found = append(found, recording.Segment{
			StartMs: max(0, p.StartMs-padding), EndMs: min(durationMs, p.EndMs+padding), Score: p.score, Speaker: p.speaker,
		})
	}
	slices.SortFunc(found, func(a, b recording.Segment) int { return cmp.Compare(a.StartMs, b.StartMs) })
	separate(found)
	return slices.DeleteFunc(found, func(s recording.Segment) bool { return s.EndMs-s.StartMs < shortest })
}

// separate takes the padding back where it made two neighbours overlap.
func separate(segments []recording.Segment) {
	for i := 1; i < len(segments); i++ {
		if over := segments[i-1].EndMs - segments[i].StartMs; over > 0 {
			segments[i-1].EndMs -= over - over/2
			segments[i].StartMs += over / 2
		}
	}
}

// spread places clips evenly over a recording that has nothing to choose by.
func spread(durationMs int64) []recording.Segment {
	const length = 6_000
	if durationMs <= length {
		return []recording.Segment{{EndMs: durationMs}}
	}
	n := min(int64(fewest), durationMs/length)
	var segments []recording.Segment
	for i := range n {
		start := (durationMs/n)*i + (durationMs/n-length)/2
		segments = append(segments, recording.Segment{StartMs: start, EndMs: start + length})
	}
	return segments
}
