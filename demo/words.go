package main

import (
	"strings"
	"unicode"
)

// words are the words of a text as they are compared: without case and punctuation.
func words(text string) []string {
	fields := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
	})
	var found []string
	for _, w := range fields {
		if w = strings.Trim(w, "'"); w != "" {
			found = append(found, w)
		}
	}
	return found
}

// wordErrorRate is the share of the said words that were heard wrongly, missed or invented: the fewest
// substitutions, deletions and insertions between the two, divided by the number of said words. It can be
// larger than 1.
func wordErrorRate(said, heard string) float64 {
	truth := words(said)
	if len(truth) == 0 {
		return 0
	}
	return float64(distance(truth, words(heard))) / float64(len(truth))
}

// likeness compares two texts by their letters and digits: 1 for the same, 0 for nothing in common.
func likeness(a, b string) float64 {
	x, y := []rune(strings.Join(words(a), "")), []rune(strings.Join(words(b), ""))
	if len(x) == 0 && len(y) == 0 {
		return 1
	}
	return 1 - float64(distance(x, y))/float64(max(len(x), len(y)))
}

// distance is the Levenshtein distance.
func distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
