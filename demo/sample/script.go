// Package sample turns a script of spoken turns into a recording whose truth is known: who said which
// words from when to when, and which names stood on the screen.
//
// It promises that the same script and tools give the same bytes. It does not promise natural speech:
// the voices are those of flite, the pictures are slides with lower thirds. The demo and the
// end-to-end tests call it; no stage does.
package sample

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a script. They keep one recording under about half an hour and every text on its slide.
const (
	MaxTurns = 200
	MaxName  = 40   // runes of a name
	MaxTitle = 60   // runes of a title
	MaxWords = 1000 // bytes of the words of one turn
)

// Voices are the names a script may use: the ones built into flite.
func Voices() []string { return []string{"awb", "kal", "kal16", "rms", "slt"} }

// Turn is one line of a script.
type Turn struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Voice string `json:"voice"`
	Words string `json:"words"`
}

// Parse reads a script: UTF-8 text, one turn a line as `Name | Title | voice | words`. Empty lines and
// lines that begin with # are skipped. An error is one sentence that names the line.
func Parse(r io.Reader) ([]Turn, error) {
	var turns []Turn
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		text := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		turn, err := parseTurn(text)
		if err != nil {
			return nil, fmt.Errorf("script line %d: %w", number, err)
		}
		if turns = append(turns, turn); len(turns) > MaxTurns {
			return nil, fmt.Errorf("script line %d: more than %d turns", number, MaxTurns)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("script line %d: it is longer than any turn", number+1)
	} else if err != nil {
		return nil, fmt.Errorf("script line %d: %w", number+1, err)
	}
	if len(turns) == 0 {
		return nil, errors.New("the script has no turns: write one a line as `Name | Title | voice | words`")
	}
	return turns, nil
}

func parseTurn(text string) (Turn, error) {
	if !utf8.ValidString(text) {
		return Turn{}, errors.New("the text is not UTF-8")
	}
	fields := strings.Split(text, "|")
	if len(fields) != 4 {
		return Turn{}, fmt.Errorf("%d fields between the bars, want 4: `Name | Title | voice | words`", len(fields))
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	turn := Turn{Name: fields[0], Title: fields[1], Voice: fields[2], Words: fields[3]}
	return turn, turn.validate()
}

func (t Turn) validate() error {
	switch {
	case t.Name == "":
		return errors.New("the name is empty")
	case utf8.RuneCountInString(t.Name) > MaxName:
		return fmt.Errorf("the name is longer than %d characters", MaxName)
	case utf8.RuneCountInString(t.Title) > MaxTitle:
		return fmt.Errorf("the title is longer than %d characters", MaxTitle)
	case !slices.Contains(Voices(), t.Voice):
		return fmt.Errorf("the voice %q is not one of %s", t.Voice, strings.Join(Voices(), ", "))
	case !strings.ContainsFunc(t.Words, unicode.IsLetter):
		return errors.New("the turn says no words")
	case len(t.Words) > MaxWords:
		return fmt.Errorf("the words are longer than %d bytes", MaxWords)
	}
	return nil
}
