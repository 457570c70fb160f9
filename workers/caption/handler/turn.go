package handler

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// turns gives every word to the turn in which its middle lies, or to the last one that began before it, and
// makes the words fit to be read.
func turns(words []recording.Word, spoken []recording.Turn, speakers []recording.Speaker) []recording.Said {
	said := []recording.Said{}
	if len(spoken) == 0 && len(words) > 0 {
		spoken = []recording.Turn{{StartMs: words[0].StartMs, EndMs: words[len(words)-1].EndMs}}
	}
	next := 0
	for i, turn := range spoken {
		from := next
		for next < len(words) && (i+1 == len(spoken) || (words[next].StartMs+words[next].EndMs)/2 < spoken[i+1].StartMs) {
			next++
		}
		if read := legible(words[from:next], speakers); len(read) > 0 {
			said = append(said, recording.Said{Turn: turn, Text: text(read), Words: read})
		}
	}
	return said
}

// legible strips what players would take for markup. A recogniser without capitals gets them for the first
// word of the turn, for "I" and for the speakers' full names; one that writes capitals is left alone.
func legible(words []recording.Word, speakers []recording.Speaker) []recording.Word {
	var read []recording.Word
	cased := false
	for _, w := range words {
		if w.Text = plain(w.Text); w.Text != "" {
			read = append(read, w)
			cased = cased || strings.ToLower(w.Text) != w.Text
		}
	}
	if len(read) == 0 || cased {
		return read
	}
	for i, w := range read {
		if w.Text == "i" || strings.HasPrefix(w.Text, "i'") {
			read[i].Text = "I" + w.Text[1:]
		}
	}
	for _, s := range speakers {
		capitaliseName(read, strings.Fields(s.Name))
	}
	read[0].Text = capital(read[0].Text)
	return read
}

// capitaliseName writes a name of two words or more as its bearer does, wherever all of it is said. A single
// word could be an ordinary one (Will, May).
func capitaliseName(words []recording.Word, name []string) {
	if len(name) < 2 {
		return
	}
	for i := 0; i+len(name) <= len(words); i++ {
		same := true
		for j, part := range name {
			same = same && strings.EqualFold(words[i+j].Text, part)
		}
		for j := 0; same && j < len(name); j++ {
			words[i+j].Text = plain(name[j])
		}
	}
}

// plain strips markup of SRT, WebVTT and ASS and everything that is not one line of text. SRT players obey
// tags, and libass obeys braces and backslashes.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case strings.ContainsRune(`<>{}\`, r), unicode.IsControl(r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + s[size:]
}
