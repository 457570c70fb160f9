package handler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// What makes a turn of a stretch, a banner a turn's, and spoken words a name.
const (
	bannerLead     = 4000 // ms: a banner that introduces somebody does so while that person begins to speak
	leastTrust     = 0.3  // confidence of each word of a spoken name
	openingWords   = 6    // "this is Mary" introduces oneself only at the beginning
	nameWords      = 2    // given name and family name; more is usually the sentence going on
	halfOfTheTurn  = 2    // a banner that stands for less than one part in that many of a turn says nothing about it
	leastPitchStep = 15.0 // Hz between two voices that are told apart
)

// voice is one stretch of speech with what speaks for its speaker.
type voice struct {
	from, to int64   // milliseconds
	pitch    float64 // Hz; 0 unknown
	shown    string  // name on screen during most of it
	began    bool    // that banner came up as the stretch began
	said     string  // name that the speaker gave
	group    int     // index of the voice by pitch; -1 unknown
}

// witness collects what is known of each stretch of speech in which words were heard.
func witness(stretches []recording.Span, words []recording.Word, seen evidence) []voice {
	var voices []voice
	for _, s := range stretches {
		heard := within(words, s)
		if len(heard) == 0 {
			continue
		}
		voices = append(voices, voice{from: s.StartMs, to: s.EndMs, group: -1, said: spelled(introduction(heard), seen.banners),
			pitch: seen.pitches.Median(time.Duration(s.StartMs)*time.Millisecond, time.Duration(s.EndMs)*time.Millisecond)})
	}
	show(voices, seen.banners)
	groupByPitch(voices)
	return voices
}

func within(words []recording.Word, s recording.Span) []recording.Word {
	var in []recording.Word
	for _, w := range words {
		if middle := (w.StartMs + w.EndMs) / 2; middle >= s.StartMs && middle < s.EndMs {
			in = append(in, w)
		}
	}
	return in
}

// spelled prefers the spelling on screen to the recogniser's.
func spelled(name string, banners []banner) string {
	for _, b := range banners {
		if name != "" && b.name != "" && alike(name, b.name) {
			return b.name
		}
	}
	return name
}

// show gives banners to the stretches they stand for: the one that most of a banner's beginning falls into, and
// those of which it covers at least half.
func show(voices []voice, banners []banner) {
	for _, b := range banners {
		if b.name == "" {
			continue
		}
		first, most := -1, int64(0)
		for i := range voices {
			if o := overlap(voices[i], b.from, min(b.to, b.from+bannerLead)); o > most {
				first, most = i, o
			}
		}
		for i := range voices {
			v := &voices[i]
			if i == first && !v.began {
				v.shown, v.began = b.name, true
			}
			if v.shown == "" && overlap(*v, b.from, b.to)*halfOfTheTurn >= v.to-v.from {
				v.shown = b.name
			}
		}
	}
}

func overlap(v voice, from, to int64) int64 { return max(0, min(v.to, to)-max(v.from, from)) }

// groupByPitch parts the voices wherever the gap between neighbouring pitches is wide enough for two people.
func groupByPitch(voices []voice) {
	byPitch := make([]*voice, 0, len(voices))
	for i := range voices {
		if voices[i].pitch > 0 {
			byPitch = append(byPitch, &voices[i])
		}
	}
	slices.SortFunc(byPitch, func(a, b *voice) int { return cmp.Compare(a.pitch, b.pitch) })
	group := 0
	for i, v := range byPitch {
		if i > 0 && v.pitch-byPitch[i-1].pitch > leastPitchStep {
			group++
		}
		v.group = group
	}
}

// openings are the ways in which people introduce themselves. Only the first is safe before any word; the
// others are common in other sentences and need a known given name.
var openings = []struct {
	words []string
	safe  bool // what follows is a name, known or not
	early bool // counts only as the speaker begins
}{
	{words: []string{"my", "name", "is"}, safe: true},
	{words: []string{"my", "name's"}, safe: true},
	{words: []string{"i", "am"}},
	{words: []string{"i'm"}},
	{words: []string{"this", "is"}, early: true},
}

// introduction returns the name that a speaker gives, or "".
func introduction(words []recording.Word) string {
	for _, o := range openings {
		for i := range words {
			if !spoken(words[i:], o.words) || (o.early && i >= openingWords) {
				continue
			}
			if name := nameIn(words[i+len(o.words):], o.safe); name != "" {
				return name
			}
		}
	}
	return ""
}

func spoken(words []recording.Word, phrase []string) bool {
	for i, p := range phrase {
		if i >= len(words) || strings.ToLower(words[i].Text) != p {
			return false
		}
	}
	return true
}

// nameIn reads a full name at the beginning of words. A given name alone is not enough to be called by.
func nameIn(words []recording.Word, safe bool) string {
	var name []string
	for _, w := range words {
		text := strings.ToLower(strings.Trim(w.Text, ".,;:!?"))
		if len(name) == 0 && honorifics[text] {
			continue
		}
		if len(name) == nameWords || w.Confidence < leastTrust || plain[text] && !givenNames[text] {
			break
		}
		name = append(name, text)
		if strings.ContainsAny(w.Text, ".,;:!?") {
			break
		}
	}
	if len(name) < nameWords || !safe && !givenNames[name[0]] {
		return ""
	}
	return titled(name)
}
