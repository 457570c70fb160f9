package workers_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packageOf is the Debian package of each program that a stage may run.
var packageOf = map[string]string{
	"ffmpeg": "ffmpeg", "ffprobe": "ffmpeg", "tesseract": "tesseract-ocr", "aubiopitch": "aubio-tools",
	"pocketsphinx_continuous": "pocketsphinx", "prlimit": "util-linux",
}

// asked are programs that a stage asks for their version only, and does without where they are missing.
var asked = map[string][]string{"publish": {"tesseract", "dpkg-query"}}

// declared tells whether scripts/tools.txt, from which setup and images are made, gives the stage the program that it ran.
func declared(t *testing.T, stage, program string) bool {
	t.Helper()
	if slices.Contains(asked[stage], program) {
		return true
	}
	raw, err := os.ReadFile("../scripts/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + stage + `:(.*)$`).FindStringSubmatch(string(raw))
	return line != nil && packageOf[program] != "" && slices.Contains(strings.Fields(line[1]), packageOf[program])
}
