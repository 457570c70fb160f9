package provider

import (
	"math"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

const longestSeconds = 1e6 // of a time that an engine may report; beyond it is nonsense

// wordOf makes a word of what an engine reported, in seconds. It refuses times that are none; a word without
// length lasts a millisecond.
func wordOf(text string, start, end, confidence float64) (recording.Word, bool) {
	if text == "" || !(start >= 0 && end >= start && end < longestSeconds) {
		return recording.Word{}, false
	}
	from, to := int64(math.Round(start*1000)), int64(math.Round(end*1000))
	if !(confidence >= 0) {
		confidence = 0
	}
	return recording.Word{Text: text, StartMs: from, EndMs: max(to, from+1), Confidence: min(confidence, 1)}, true
}
