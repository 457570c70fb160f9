package main

import (
	"strings"
	"testing"
)

func TestTheReportFailsWithAnyNumberThatIsPromised(t *testing.T) {
	good := check{name: "clips", value: "4", bound: "at least 3", holds: true}
	bad := check{name: "clips", value: "2", bound: "at least 3"}
	slow := check{name: "wall", value: "61 s", bound: "under 60 s", clock: true}
	left := check{name: "processes", value: "1", bound: "0", any: true}
	for name, c := range map[string]struct {
		checks []check
		own    bool
		want   bool
		text   string
	}{
		"all hold":                     {[]check{good, good}, true, true, "holds: at least 3"},
		"the first fails":              {[]check{bad, good}, true, false, "FAILS: at least 3"},
		"the last fails":               {[]check{good, bad}, true, false, "FAILS: at least 3"},
		"a time is shown, not judged":  {[]check{good, slow}, true, true, "OVER: under 60 s"},
		"another script promises less": {[]check{good, bad}, false, true, "2"},
		"but not to leave a process":   {[]check{good, left}, false, false, "FAILS: 0"},
		"which no script is allowed":   {[]check{good, left}, true, false, "FAILS: 0"},
	} {
		var out strings.Builder
		got := report(&out, c.checks, c.own)
		if got != c.want || !strings.Contains(out.String(), c.text) || (got && strings.Contains(out.String(), "FAILS")) {
			t.Errorf("%s: %t, %s", name, got, out.String())
		}
	}
}
