package media

import "testing"

func TestEveryInstalledToolTellsItsVersion(t *testing.T) {
	got := Runner{Dir: t.TempDir()}.Versions(t.Context())
	for _, tool := range []string{"ffmpeg", "tesseract", "pocketsphinx", "aubio"} {
		if v := got[tool]; v == "" || v[0] < '0' || v[0] > '9' {
			t.Errorf("%s says %q, want a version number", tool, v)
		}
	}
}
