package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// spend makes wrong requests until the address that they come from is told to wait.
func (h *house) spend(headers ...string) {
	h.t.Helper()
	for range 60 {
		if h.ask("wrong", "GET", "/v1/account", nil, headers...).status == http.StatusTooManyRequests {
			return
		}
	}
	h.t.Fatalf("%v never has to wait", headers)
}

func TestWhoGuessesBehindATrustedProxyStopsNobodyElseThere(t *testing.T) {
	h := newHouse(t, "sqlite")
	const proxy, other = "10.9.0.1:1", "[2001:db8:9::2]:1"
	h.spend(from, proxy, "X-Forwarded-For", "203.0.113.7")
	for name, c := range map[string]struct {
		from, told string
		status     int
	}{
		"the same by another port":           {"10.9.0.1:2", "203.0.113.7:4711", 429},
		"the same by another proxy":          {other, "203.0.113.7", 429},
		"the same by two proxies":            {proxy, "203.0.113.7, 2001:db8:9::2", 429},
		"the same, who claims to be another": {proxy, "198.51.100.1, 203.0.113.7", 429},
		"another":                            {proxy, "203.0.113.8", 200},
		"another, in IPv6":                   {proxy, "[2001:db8:1::7]", 200},
		"the proxy itself":                   {proxy, "", 200},
		"a proxy that tells nonsense":        {proxy, "203.0.113.7, unknown", 200},
		"a stranger who says to be the same": {"198.51.100.9:1", "203.0.113.7", 200},
	} {
		key := h.key("acme", 0, job.ScopeView) // that nobody has used
		if a := h.ask(key, "GET", "/v1/account", nil, from, c.from, "X-Forwarded-For", c.told); a.status != c.status {
			t.Errorf("%s = %d %s, want %d", name, a.status, a.text, c.status)
		}
	}
}

func TestAStrangersWordForAnAddressCountsForNothing(t *testing.T) {
	h := newHouse(t, "sqlite")
	h.key("acme", 0, job.ScopeView)
	last := 0
	for i := range 60 {
		last = h.ask("wrong", "GET", "/v1/account", nil, from, "198.51.100.9:1", "X-Forwarded-For", fmt.Sprint("203.0.113.", i)).status
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after 60 wrong keys under 60 names = %d", last)
	}
}

func TestWithoutKeysAProxyLetsNobodyInFromElsewhere(t *testing.T) {
	h := newHouse(t, "sqlite")
	for told, status := range map[string]int{"203.0.113.7": 403, "127.0.0.1": 200, "": 200} {
		if a := h.ask("", "GET", "/v1/stages", nil, from, "10.9.0.1:1", "X-Forwarded-For", told); a.status != status {
			t.Errorf("%q = %d %s", told, a.status, a.text)
		}
	}
}
