package handler

import (
	"fmt"
	"slices"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// turnGap joins stretches of one speaker into a turn across a shorter pause (milliseconds).
const turnGap = 1000

// cast is who speaks when.
type cast struct {
	voices []voice
	names  []recording.Speaker // in order of appearance
	of     []int               // index into names for each voice
}

// castOf decides who each voice is. A name on screen as somebody begins to speak outranks everything; then a
// name that stands while they speak, unless it came up for a different voice; then what the voice, recognised
// by pitch, is called elsewhere; then what it said. The rest is unknown, one speaker for each pitch.
func castOf(voices []voice, banners []banner) *cast {
	distrustStanding(voices)
	c := &cast{voices: voices, of: make([]int, len(voices))}
	index := map[string]int{}
	for i, v := range voices {
		s := identity(v, voices)
		key := s.Name
		if key == "" {
			key = fmt.Sprint("?", v.group)
		}
		at, known := index[key]
		if !known {
			at = len(c.names)
			index[key] = at
			s.ID = fmt.Sprintf("s%d", at+1)
			s.Title = titleOf(s.Name, banners)
			c.names = append(c.names, s)
		}
		c.of[i] = at
	}
	return c
}

// distrustStanding drops a name from voices it merely stood over, when it came up for a voice of another pitch.
func distrustStanding(voices []voice) {
	came := map[string]map[int]bool{}
	for _, v := range voices {
		if v.began {
			if came[v.shown] == nil {
				came[v.shown] = map[int]bool{}
			}
			came[v.shown][v.group] = true
		}
	}
	for i := range voices {
		v := &voices[i]
		if !v.began && v.shown != "" && v.group >= 0 && len(came[v.shown]) > 0 && !came[v.shown][v.group] {
			v.shown = ""
		}
	}
}

// identity names one voice from its own evidence and that of its group.
func identity(v voice, voices []voice) recording.Speaker {
	shown := v.shown
	if shown == "" {
		shown = onlyName(voices, onScreen, v.group)
	}
	said := v.said
	if said == "" && !inGroup(voices, v.group, onScreen) { // else the group is several people
		said = onlyName(voices, inWords, v.group)
	}
	heard := func(o voice) bool { return o.said == shown && (o.group == v.group || o.shown == shown) }
	switch {
	case shown != "" && slices.ContainsFunc(voices, heard):
		return recording.Speaker{Name: shown, Evidence: recording.EvidenceBoth}
	case shown != "":
		return recording.Speaker{Name: shown, Evidence: recording.EvidenceScreen}
	case said != "":
		return recording.Speaker{Name: said, Evidence: recording.EvidenceSpoken}
	default:
		return recording.Speaker{Evidence: recording.EvidenceUnknown}
	}
}

func onScreen(v voice) string { return v.shown }
func inWords(v voice) string  { return v.said }

func inGroup(voices []voice, group int, name func(voice) string) bool {
	return slices.ContainsFunc(voices, func(v voice) bool { return v.group == group && name(v) != "" })
}

// onlyName returns the one name that the voices of a group have, or "" when they have none or several.
func onlyName(voices []voice, name func(voice) string, group int) string {
	only := ""
	for _, v := range voices {
		switch n := name(v); {
		case v.group != group || group < 0 || n == "" || n == only:
		case only == "":
			only = n
		default:
			return ""
		}
	}
	return only
}

func titleOf(name string, banners []banner) string {
	i := slices.IndexFunc(banners, func(b banner) bool { return name != "" && b.name == name && b.title != "" })
	if i < 0 {
		return ""
	}
	return banners[i].title
}

func (c *cast) speakers() []recording.Speaker { return append([]recording.Speaker{}, c.names...) }

// turns joins neighbouring stretches of one speaker.
func (c *cast) turns() []recording.Turn {
	turns := []recording.Turn{}
	for i, v := range c.voices {
		id := c.names[c.of[i]].ID
		if n := len(turns); n > 0 && turns[n-1].Speaker == id && v.from-turns[n-1].EndMs < turnGap {
			turns[n-1].EndMs = v.to
			continue
		}
		turns = append(turns, recording.Turn{StartMs: v.from, EndMs: v.to, Speaker: id})
	}
	return turns
}

// unknown returns the indexes of the speakers without a name.
func (c *cast) unknown() []int {
	var at []int
	for i, s := range c.names {
		if s.Name == "" {
			at = append(at, i)
		}
	}
	return at
}

// longest returns the longest stretch of a speaker.
func (c *cast) longest(speaker int) voice {
	var longest voice
	for i, v := range c.voices {
		if c.of[i] == speaker && v.to-v.from > longest.to-longest.from {
			longest = v
		}
	}
	return longest
}
