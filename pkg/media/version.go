package media

import (
	"context"
	"regexp"
)

// versionOf says how each tool tells its version. Two of them have no answer of their own; the package
// manager's is taken, so it is missing where they were installed by other means.
var versionOf = []struct {
	tool   string
	asked  []string
	answer *regexp.Regexp
}{
	{"ffmpeg", []string{"ffmpeg", "-version"}, regexp.MustCompile(`^ffmpeg version (\S+)`)},
	{"tesseract", []string{"tesseract", "--version"}, regexp.MustCompile(`^tesseract (\S+)`)},
	{"pocketsphinx", []string{"dpkg-query", "-W", "-f=${Version}", "pocketsphinx"}, regexp.MustCompile(`^(\S+)`)},
	{"aubio", []string{"dpkg-query", "-W", "-f=${Version}", "aubio-tools"}, regexp.MustCompile(`^(\S+)`)},
}

// Versions returns the versions of the installed tools. A tool that is missing, or does not say, is left out.
func (r Runner) Versions(ctx context.Context) map[string]string {
	found := map[string]string{}
	for _, v := range versionOf {
		out, err := r.Run(ctx, v.asked[0], v.asked[1:]...)
		if err != nil {
			continue
		}
		if m := v.answer.FindSubmatch(out.Stdout); m != nil {
			found[v.tool] = string(m[1])
		}
	}
	return found
}
