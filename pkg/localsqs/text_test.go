package localsqs

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPlainRunStopsBeforeWhatNeedsACloserLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "mostly plain") {
			s = append([]byte(strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "plain"))), s...)
		}
		n := plainRun(string(s))
		for i, c := range s[:n] {
			if c < ' ' || c > '~' && c != 0x7f || c == '"' || c == '\\' {
				t.Fatalf("%q at %d of %q is not plain", c, i, s)
			}
		}
	})
	if n := plainRun(strings.Repeat("x", 1024)); n != 1024 {
		t.Errorf("%d of 1024 plain bytes", n)
	}
}

// The documented alphabets, as patterns.
var (
	idPattern      = regexp.MustCompile(`^[a-zA-Z0-9!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~]{1,128}$`)
	entryIDPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)
)

func TestIDsAreOfTheDocumentedAlphabets(t *testing.T) {
	check := func(fatalf func(string, ...any), s string) {
		if validID(s) != idPattern.MatchString(s) || validEntryID(s) != entryIDPattern.MatchString(s) {
			fatalf("%q: %v, %v", s, validID(s), validEntryID(s))
		}
	}
	for c := range 256 {
		check(t.Errorf, string([]byte{byte(c)}))
	}
	for _, n := range []int{0, 1, maxEntryID, maxEntryID + 1, maxID, maxID + 1} {
		check(t.Errorf, strings.Repeat("a", n))
	}
	rapid.Check(t, func(t *rapid.T) { check(t.Fatalf, rapid.String().Draw(t, "id")) })
}
