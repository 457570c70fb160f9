package handler

import (
	"fmt"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// srt writes SubRip.
func srt(cues []recording.Cue) string {
	var b strings.Builder
	for i, c := range cues {
		fmt.Fprintf(&b, "%d\n%s --> %s\n%s\n\n", i+1, clock(c.StartMs, ','), clock(c.EndMs, ','), strings.Join(c.Lines, "\n"))
	}
	return b.String()
}

// vtt writes WebVTT (W3C, "WebVTT: The Web Video Text Tracks Format"): an ampersand would begin an entity.
func vtt(cues []recording.Cue) string {
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
