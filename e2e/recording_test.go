package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stagefleet/stagefleet/demo/sample"
)

// dictionary is what the recogniser knows; Debian's pocketsphinx-en-us puts it here.
const dictionary = "/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict"

// lexicon draws words and names from the dictionary.
type lexicon struct {
	words, names []string
	dice         *rand.Rand
}

func openLexicon() (*lexicon, error) {
	file, err := os.Open(dictionary)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	known := map[string]bool{}
	var order []string
	plain := regexp.MustCompile(`^[a-z]{4,9}$`)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		word, _, _ := strings.Cut(lines.Text(), " ")
		known[word] = true
		if plain.MatchString(word) {
			order = append(order, word)
		}
	}
	l := &lexicon{dice: rand.New(rand.NewPCG(*seedFlag, 1))}
	for _, word := range order {
		switch {
		case len(word) > 5 && known[word+"s"] && known[word+"ed"] && known[word+"ing"]: // a verb in use, which the language model knows
			l.words = append(l.words, word)
		case known[word+"'s"] && !known[word+"s"] && len(word) > 5: // what has things but no plural is mostly a name
			l.names = append(l.names, word)
		}
	}
	return l, lines.Err()
}

func (l *lexicon) pick(list []string) string { return list[l.dice.IntN(len(list))] }

// name is a given and a family name as they are written.
func (l *lexicon) name() string {
	capital := func(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
	return capital(l.pick(l.names)) + " " + capital(l.pick(l.names))
}

// frame makes drawn verbs a sentence: the language model expects some grammar.
func (l *lexicon) frame() (sentence, drawn string) {
	verbs := []any{l.pick(l.words), l.pick(l.words), l.pick(l.words), l.pick(l.words)}
	return fmt.Sprintf("we want to %s and they have to %s but you need to %s before we can %s all of them", verbs...), fmt.Sprintln(verbs...)
}

// drawnRecording is a recording whose truth is known.
type drawnRecording struct {
	file  string
	truth sample.Truth
	verbs string // the drawn words
}

// drawn returns the recording of this run: two speakers who say their names and drawn words. It is made once.
func drawn(t *testing.T) drawnRecording {
	t.Helper()
	t.Logf("to draw the same words again: go test ./e2e -run %s -seed %d", t.Name(), *seedFlag)
	r, err := draw()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const turns = 4

var draw = sync.OnceValues(func() (drawnRecording, error) {
	l, err := openLexicon()
	if err != nil {
		return drawnRecording{}, err
	}
	r := drawnRecording{file: filepath.Join(filepath.Dir(bin), "talk.mp4")}
	cast := []sample.Turn{{Name: l.name(), Title: "Planning Director", Voice: "rms"}, {Name: l.name(), Title: "Chief Engineer", Voice: "slt"}}
	var script []sample.Turn
	for i := range turns {
		turn := cast[i%2]
		sentence, verbs := l.frame()
		r.verbs += verbs
		turn.Words = sentence
		if i < 2 {
			turn.Words = "good morning, my name is " + turn.Name + " and " + sentence
		}
		script = append(script, turn)
	}
	r.truth, err = sample.Generate(context.Background(), script, r.file)
	return r, err
})

// recall is the share of the words that were said and are in the text, each counted once.
func recall(said, text string) float64 {
	heard := map[string]bool{}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		heard[word] = true
	}
	wanted := map[string]bool{}
	found := 0
	for _, word := range strings.Fields(strings.ToLower(said)) {
		if word = strings.Trim(word, ",."); !wanted[word] {
			wanted[word] = true
			if heard[word] {
				found++
			}
		}
	}
	return float64(found) / float64(len(wanted))
}
