package handler

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Bounds of a clip in milliseconds.
const (
	shortest = 2_000
	longest  = 30_000
	padding  = 150 // kept before and after the words, so that none is cut off
)

// passage is a stretch that could become a clip: a whole turn, or a piece of a long one.
type passage struct {
	recording.Span
	speaker string
	words   []recording.Word
}

// passages cuts the transcript into candidates. A turn stays whole; one that is too long for a clip is cut
// at its longest pauses. Turns without words are none, and a word that lasts longer than a clip is no word.
func passages(words []recording.Word, turns []recording.Turn) []passage {
	var found []passage
	for _, turn := range turns {
		said := within(words, turn)
		for _, piece := range pieces(said) {
			found = append(found, passage{
				Span:    recording.Span{StartMs: piece[0].StartMs, EndMs: piece[len(piece)-1].EndMs},
				speaker: turn.Speaker, words: piece,
			})
		}
	}
	return slices.DeleteFunc(found, func(p passage) bool { return p.EndMs-p.StartMs < shortest || p.EndMs-p.StartMs > longest })
}

// within returns the words whose middle lies in the turn.
func within(words []recording.Word, turn recording.Turn) []recording.Word {
	middle := func(w recording.Word) int64 { return (w.StartMs + w.EndMs) / 2 }
	from, _ := slices.BinarySearchFunc(words, turn.StartMs, func(w recording.Word, at int64) int { return cmp.Compare(middle(w), at) })
	to, _ := slices.BinarySearchFunc(words, turn.EndMs, func(w recording.Word, at int64) int { return cmp.Compare(middle(w), at) })
	return words[from:max(from, to)]
}

// pieces halves words at a long pause near the middle until every piece fits into a clip.
func pieces(words []recording.Word) [][]recording.Word {
	if len(words) == 0 {
		return nil
	}
	if len(words) == 1 || words[len(words)-1].EndMs-words[0].StartMs <= longest-2*padding {
		return [][]recording.Word{words}
	}
	at, pause := len(words)/2, int64(-1)
	for i := max(1, len(words)/4); i <= len(words)*3/4; i++ {
		if gap := words[i].StartMs - words[i-1].EndMs; gap > pause {
			at, pause = i, gap
		}
	}
	return append(pieces(words[:at]), pieces(words[at:])...)
}

func (p passage) text() string {
	said := make([]string, len(p.words))
	for i, w := range p.words {
		said[i] = w.Text
	}
	return strings.Join(said, " ")
}

// terms are the words that carry meaning, in the form in which they are counted.
func terms(words []recording.Word) []string {
	var found []string
	for _, w := range words {
		term := strings.ToLower(strings.TrimFunc(w.Text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
		if len([]rune(term)) > 2 && !stopWords[term] {
			found = append(found, term)
		}
	}
	return found
}

var stopWords = set(`about after again all also and any are because been before being but can cannot could did does
doing done down during each even every few for from get gets going got had has have having her here hers him his how
i'll i'm i've into isn't it's its just know like made make many may might more most much must name not now off one
only other our out over own really same say says shall she should since some such than thank thanks that that's the
their them then there these they they're this those though through too under until upon very was wasn't way we'll
we're we've well were what when where which while who whom why will with won't would yes you you'll you're your`)

func set(words string) map[string]bool {
	found := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		found[w] = true
	}
	return found
}
