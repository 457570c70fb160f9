package handler

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Bounds of cues in milliseconds. Six seconds for two full lines is the usual reading speed for adults.
const (
	longestCue  = 6_000
	longestGap  = 600 // a pause that ends a cue
	hold        = 400 // a cue stays this long after its last word, if nothing follows
	shortestCue = 700 // and at least this long in all, if nothing follows
)

// cues captions words that one speaker says without interruption, until no later than end.
func cues(words []recording.Word, end int64) []recording.Cue {
	var found []recording.Cue
	for _, run := range runs(words) {
		// Filling one cue after the other would leave a last one of a word or two, so the run is divided evenly.
		full := fill(run, 2*recording.CueColumns)
		for _, group := range fill(run, length(run)/len(full)) {
			found = append(found, recording.Cue{StartMs: group[0].StartMs, EndMs: group[len(group)-1].EndMs, Lines: lines(group)})
		}
	}
	linger(found, end)
	return slices.DeleteFunc(found, func(c recording.Cue) bool { return c.EndMs <= c.StartMs })
}

// runs splits words at long pauses.
func runs(words []recording.Word) [][]recording.Word {
	var found [][]recording.Word
	from := 0
	for i := range words {
		if i+1 == len(words) || words[i+1].StartMs-words[i].EndMs > longestGap {
			found = append(found, words[from:i+1])
			from = i + 1
		}
	}
	return found
}

// fill groups words into cues, each ended as soon as it has the wanted length or nothing more fits.
func fill(run []recording.Word, want int) [][]recording.Word {
	var found [][]recording.Word
	from := 0
	for i := range run {
		group := run[from : i+1]
		last := i+1 == len(run)
		if last || length(group) >= want || !fits(run[from:i+2]) {
			found = append(found, group)
			from = i + 1
		}
	}
	return found
}

func fits(group []recording.Word) bool {
	return group[len(group)-1].EndMs-group[0].StartMs <= longestCue && len(wrap(group)) <= recording.CueLines
}

// wrap fills lines from the left.
func wrap(group []recording.Word) []string {
	var found []string
	line := ""
	for _, w := range group {
		word := shorten(w.Text)
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= recording.CueColumns:
			line += " " + word
		default:
			found, line = append(found, line), word
		}
	}
	return append(found, line)
}

// lines lays a group that fits out on one line, or on two of nearly the same width.
func lines(group []recording.Word) []string {
	filled := wrap(group)
	if len(filled) == 1 {
		return filled
	}
	best := filled
	for i := 1; i < len(group); i++ {
		top, bottom := wrap(group[:i]), wrap(group[i:])
		if len(top) == 1 && len(bottom) == 1 && max(width(top[0]), width(bottom[0])) < max(width(best[0]), width(best[1])) {
			best = []string{top[0], bottom[0]}
		}
	}
	return best
}

// linger keeps cues readable: longer than their words where there is room before the next.
func linger(cues []recording.Cue, end int64) {
	for i := range cues {
		room := end
		if i+1 < len(cues) {
			room = min(room, cues[i+1].StartMs)
		}
		cues[i].EndMs = min(max(cues[i].EndMs+hold, cues[i].StartMs+shortestCue), room)
	}
}

// shorten cuts a word that no line could hold.
func shorten(word string) string {
	if width(word) <= recording.CueColumns {
		return word
	}
	return string([]rune(word)[:recording.CueColumns-1]) + "…"
}

func length(group []recording.Word) int {
	n := len(group) - 1
	for _, w := range group {
		n += width(w.Text)
	}
	return n
}

func width(s string) int { return utf8.RuneCountInString(s) }

// text joins words as they are read.
func text(words []recording.Word) string {
	said := make([]string, len(words))
	for i, w := range words {
		said[i] = w.Text
	}
	return strings.Join(said, " ")
}
