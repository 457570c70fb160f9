package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/provider"
)

func TestToolsThatAreNotInstalledAreNamedInOneSentence(t *testing.T) {
	installed := t.TempDir()
	t.Setenv("PATH", installed)
	for _, c := range []struct{ install, speech, want string }{
		{"prlimit", "", "Not installed, so jobs will fail or have gaps: ffmpeg, ffprobe, tesseract, aubiopitch, pocketsphinx_continuous. `make setup` installs what the stages run.\n"},
		{"ffmpeg", "https://speech.example", "Not installed, so jobs will fail or have gaps: ffprobe, tesseract, aubiopitch. `make setup` installs what the stages run.\n"},
		{"ffprobe tesseract aubiopitch", "https://speech.example", ""},
		{"pocketsphinx_continuous", "", ""},
	} {
		for tool := range strings.FieldsSeq(c.install) {
			if err := os.WriteFile(filepath.Join(installed, tool), []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var said strings.Builder
		warnOfMissingTools(&said, func(name string) string { return map[string]string{provider.SpeechURL: c.speech}[name] })
		if said.String() != c.want {
			t.Errorf("with %s too: %q, want %q", c.install, said.String(), c.want)
		}
	}
}
