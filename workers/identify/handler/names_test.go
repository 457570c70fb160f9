package handler

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLinesThatAreNamesAndLinesThatAreNot(t *testing.T) {
	for line, want := range map[string]bool{
		"John Carter": true, "Dr. Mary Wilson": true, "Prof Ana María López": true, "J. R. Tolkien": true, "Sinead O'Neil": true,
		"Anna Smith-Jones": true, "Zoë Müller": true, "Adam Driver": true, "Will Young": true, "Zbigniew Painter Kowal": false,
		"Planning Director": false, "Chief Engineer": false, "Planning Director, City of Lakeview": false, "City of Lakeview": false,
		"Thank You": false, "What Next": false, "The Bridge": false, "How Much Money": false, "JOHN CARTER": true, "BREAKING NEWS": false,
		"John": true, "Prince": false, "BRIDGE": false, "MARY O'NEIL": true,
		"2nd Avenue": false, "john carter": false, "Mary Wilson Bob Smith Jones": false, "": false, "Dr": false, "Mayor": false,
	} {
		if got := nameScore(line) > 0; got != want {
			t.Errorf("%q: name %v", line, got)
		}
	}
}

func TestReadingsOfOneNameAreAlikeAndOtherNamesAreNot(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"Mary Wilson", "Mary Wi1son"}: true, {"john carter", "John Carter"}: true, {"Mary Wilson", "Mary Watson"}: false,
		{"", "Mary"}: false, {"John Carter", "Mary Wilson"}: false, {"Jon Lee", "Jan Lee"}: true,
	} {
		if got := alike(pair[0], pair[1]); got != want {
			t.Errorf("%q: alike %v", pair, got)
		}
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SliceOfN(rapid.SampledFrom([]rune("abc")), 0, 6)
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		ab, ba := distance(a, b), distance(b, a)
		if ab != ba || (ab == 0) != (string(a) == string(b)) || distance(a, c) > ab+distance(b, c) || ab > max(len(a), len(b)) {
			t.Fatalf("%q %q %q: %d %d", string(a), string(b), string(c), ab, ba)
		}
	})
}
