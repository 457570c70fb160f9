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
		{"prlimit", "", "Not installed, so jobs will fail: ffmpeg, ffprobe, tesseract, aubiopitch, pocketsphinx. `make setup` installs what the stages run.\n"},
		{"ffmpeg", "https://speech.example", "Not installed, so jobs will fail: ffprobe, tesseract, aubiopitch. `make setup` installs what the stages run.\n"},
		{"ffprobe tesseract aubiopitch", "https://speech.example", ""},
		{"pocketsphinx", "", ""},
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
