package handler

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

const (
	titleTerms    = 3  // of the recording's title
	titleColumns  = 60 // of a clip's title
	summaryTurns  = 3
	minTerm       = 4 // letters; shorter words rarely say what a recording is about
	noSpeech      = "Nothing was said that could be recognised."
	noSpeechTitle = "A recording without words"
)

// title names a recording by its most frequent long words and who speaks. It is a label, not a headline.
func title(said []recording.Said, speakers []recording.Speaker) string {
	count := map[string]int{}
	var order []string
	for _, turn := range said {
		for _, w := range turn.Words {
			term := strings.ToLower(strings.TrimFunc(w.Text, func(r rune) bool { return !unicode.IsLetter(r) }))
			if len([]rune(term)) < minTerm || common[term] || isName(term, speakers) {
				continue
			}
			if count[term]++; count[term] == 1 {
				order = append(order, term)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	topic := capital(enumerate(order[:min(titleTerms, len(order))]))
	who := enumerate(names(speakers))
	switch {
	case topic == "" && who == "":
		return noSpeechTitle
	case topic == "":
		return who
	case who == "":
		return topic
	}
	return topic + ": " + who
}

// clipTitle is the beginning of what is said.
func clipTitle(words []recording.Word) string {
	said := text(words)
	if runes := []rune(said); len(runes) > titleColumns {
		cut := string(runes[:titleColumns-1])
		said = strings.TrimRight(cut[:max(strings.LastIndex(cut, " "), 0)], " ,.;:") + "…"
	}
	return said
}

// summary quotes the turns that the best segments come from.
func summary(said []recording.Said, segments []recording.Segment, speakers []recording.Speaker) string {
	if len(said) == 0 {
		return noSpeech
	}
	best := slices.Clone(segments)
	slices.SortStableFunc(best, func(a, b recording.Segment) int { return cmp.Compare(b.Score, a.Score) })
	best = best[:min(summaryTurns, len(best))]
	slices.SortFunc(best, func(a, b recording.Segment) int { return cmp.Compare(a.StartMs, b.StartMs) })
	var quotes []string
	for _, s := range best {
		if words := saidIn(said, s); len(words) > 0 {
			quotes = append(quotes, clipQuote(words, name(speakers, s.Speaker)))
		}
	}
	return strings.Join(quotes, " ")
}

func clipQuote(words []recording.Word, who string) string {
	quote := strings.TrimRight(text(words), " .") + "."
	if who == "" {
		return quote
	}
	return who + ": " + quote
}

// saidIn returns the words that lie in a segment.
func saidIn(said []recording.Said, s recording.Segment) []recording.Word {
	var words []recording.Word
	for _, turn := range said {
		for _, w := range turn.Words {
			if middle := (w.StartMs + w.EndMs) / 2; middle >= s.StartMs && middle < s.EndMs {
				words = append(words, w)
			}
		}
	}
	return words
}

func name(speakers []recording.Speaker, id string) string {
	for _, s := range speakers {
		if s.ID == id {
			return plain(s.Name)
		}
	}
	return ""
}

func names(speakers []recording.Speaker) []string {
	var found []string
	for _, s := range speakers {
		if s.Name != "" {
			found = append(found, plain(s.Name))
		}
	}
	return found
}

func isName(term string, speakers []recording.Speaker) bool {
	for _, s := range speakers {
		for part := range strings.FieldsSeq(s.Name) {
			if strings.EqualFold(part, term) {
				return true
			}
		}
	}
	return false
}

func enumerate(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}

var common = set(`about after afternoon again also another because been before being between came could didn't does doing done
don't down during each evening everybody everyone first from give goes going gone good great have having hello here into it's
just know last like made make many maybe might more morning most much must name need never next only other over
people please really said same says shall should since some such than thank thanks that that's their them then there
these they they're thing things think this those through today told tonight took under until upon used very want wants welcome
we'll we're we've well went were what when where which while will with without won't work would year years yesterday
you'll you're your`)

func set(words string) map[string]bool {
	found := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		found[w] = true
	}
	return found
}
