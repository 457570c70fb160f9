package recording

import "testing"

func TestSubtitleFilesAreWrittenAsPlayersReadThem(t *testing.T) {
	all := []Cue{
		{StartMs: 0, EndMs: 1_050, Lines: []string{"AT&T said"}},
		{StartMs: 3_723_004, EndMs: 3_725_000, Lines: []string{"one line", "and another"}},
	}
	wantSRT := "1\n00:00:00,000 --> 00:00:01,050\nAT&T said\n\n2\n01:02:03,004 --> 01:02:05,000\none line\nand another\n\n"
	if got := SRT(all); got != wantSRT {
		t.Errorf("SRT %q", got)
	}
	wantVTT := "WEBVTT\n\n00:00:00.000 --> 00:00:01.050\nAT&amp;T said\n\n01:02:03.004 --> 01:02:05.000\none line\nand another\n\n"
	if got := WebVTT(all); got != wantVTT {
		t.Errorf("WebVTT %q", got)
	}
	if got := WebVTT(nil); got != "WEBVTT\n\n" {
		t.Errorf("WebVTT without cues %q", got)
	}
}
