package handler

import (
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"clock": clock}).Parse(pageSource))

// content is what the page shows. The template escapes all of it: names and words are the submitter's.
type content struct {
	Manifest
	Turns   []line
	Posters []string
	Note    string // why there are no clips
	Sure    string // how far the words can be trusted
}

// line is one turn of the transcript.
type line struct {
	StartMs   int64
	Who, Text string
}

func view(m Manifest, transcript recording.Transcript, ordered int) content {
	c := content{Manifest: m, Note: whyNoClips(m, ordered), Sure: trust(m)}
	for _, turn := range transcript.Turns {
		c.Turns = append(c.Turns, line{turn.StartMs, m.SpeakerName(turn.Speaker), turn.Text})
	}
	for _, f := range m.Files {
		if strings.HasPrefix(f.Path, "posters/") {
			c.Posters = append(c.Posters, f.Path)
		}
	}
	return c
}

// SpeakerName names a voice, by its number when nobody could be named.
func (m Manifest) SpeakerName(id string) string {
	for i, s := range m.Speakers {
		switch {
		case s.ID != id:
		case s.Name != "":
			return s.Name
		default:
			return fmt.Sprintf("Speaker %d", i+1)
		}
	}
	return ""
}

// Who is the speaker of a clip, or nothing.
func (c content) Who(clip Clip) string { return c.SpeakerName(clip.Segment.Speaker) }

// Named is a speaker with title, and what the name rests on.
func (c content) Named(s recording.Speaker) string {
	basis := map[string]string{
		recording.EvidenceSpoken: "introduced by voice", recording.EvidenceScreen: "named on screen",
		recording.EvidenceBoth: "introduced by voice and named on screen", recording.EvidenceVision: "named by a vision model",
		recording.EvidenceUnknown: "name unknown",
	}[s.Evidence]
	return strings.TrimPrefix(s.Title+" · "+basis, " · ")
}

func whyNoClips(m Manifest, ordered int) string {
	switch {
	case len(m.Clips) > 0:
		return ""
	case ordered > 0:
		return "There are no clips, because none of those chosen could be made."
	case m.Words == 0:
		return "There are no clips, because no speech was recognised in this recording."
	default:
		return "There are no clips, because nobody speaks for long enough at a time."
	}
}

func trust(m Manifest) string {
	if m.Words == 0 {
		return ""
	}
	return fmt.Sprintf("%d words recognised by %s, which is %.0f %% sure of them on average. Some will be wrong.", m.Words, m.Engine, 100*m.Confidence)
}

func clock(ms int64) string { return fmt.Sprintf("%d:%02d", ms/60_000, ms/1000%60) }
