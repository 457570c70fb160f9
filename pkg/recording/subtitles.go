package recording

import (
	"fmt"
	"strings"
)

// SRT writes cues as a SubRip file. The lines are written as they are: players obey markup in them.
func SRT(cues []Cue) string {
	var b strings.Builder
	for i, c := range cues {
		fmt.Fprintf(&b, "%d\n%s --> %s\n%s\n\n", i+1, clock(c.StartMs, ','), clock(c.EndMs, ','), strings.Join(c.Lines, "\n"))
	}
	return b.String()
}

// WebVTT writes cues as a WebVTT file (W3C, "WebVTT: The Web Video Text Tracks Format"). An ampersand, which
// would begin an entity, is escaped; other markup is written as it is.
func WebVTT(cues []Cue) string {
	var b strings.Builder
	b.WriteString("WEBVTT\n\n")
	for _, c := range cues {
		lines := strings.ReplaceAll(strings.Join(c.Lines, "\n"), "&", "&amp;")
		fmt.Fprintf(&b, "%s --> %s\n%s\n\n", clock(c.StartMs, '.'), clock(c.EndMs, '.'), lines)
	}
	return b.String()
}

func clock(ms int64, point rune) string {
	return fmt.Sprintf("%02d:%02d:%02d%c%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, point, ms%1000)
}
