package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestWhoGuessesKeysMustWaitAndLocksNobodyOut(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		key := h.key("acme", 100_000, job.ScopeView)
		fresh := h.key("acme", 100_000, job.ScopeView)
		ask := func(address, key string) answer { return h.ask(key, "GET", "/v1/account", nil, from, address) }
		if a := ask("203.0.113.7:1", key); a.status != 200 {
			t.Fatalf("a good key = %d", a.status)
		}
		count := map[int]int{}
		var last answer
		for i := range 60 {
			last = ask(fmt.Sprintf("203.0.113.7:%d", i+1), []string{"", "x", "fleet_" + nobodys + "_" + strings.Repeat("a", 52)}[i%3])
			count[last.status]++
		}
		if count[http.StatusUnauthorized] < 20 || count[http.StatusUnauthorized] > 30 || count[http.StatusTooManyRequests] != 60-count[http.StatusUnauthorized] {
			t.Errorf("statuses %v", count)
		}
		if wait, err := strconv.Atoi(last.header.Get("Retry-After")); err != nil || wait < 1 || wait > 2 || last.body["code"] != "guesses" || last.body["reset_at"] == nil {
			t.Errorf("refusal: %v %s", last.header, last.text)
		}
		if a := ask("203.0.113.7:99", key); a.status != 200 {
			t.Errorf("a key that was good before, from the same address = %d", a.status)
		}
		if a := ask("203.0.113.7:99", fresh); a.status != http.StatusTooManyRequests {
			t.Errorf("a key that nobody has used, from the same address = %d", a.status)
		}
		if a := ask("203.0.113.8:1", fresh); a.status != 200 {
			t.Errorf("another address = %d", a.status)
		}
		if a := ask("[2001:db8::1]:1", "x"); a.status != http.StatusUnauthorized {
			t.Errorf("IPv6 = %d", a.status)
		}
		count = map[int]int{}
		for i := range 40 {
			count[ask(fmt.Sprintf("[2001:db8::%x:1]:1", i), "x").status]++
		}
		if count[http.StatusTooManyRequests] < 10 {
			t.Errorf("one IPv6 network with many addresses: %v", count)
		}
		if err := h.store.RevokeKey(t.Context(), strings.Split(key, "_")[1], "test"); err != nil {
			t.Fatal(err)
		}
		if a := ask("203.0.113.7:99", key); a.status != http.StatusUnauthorized {
			t.Errorf("revoked = %d", a.status)
		}
		if a := ask("203.0.113.7:99", key); a.status != http.StatusTooManyRequests {
			t.Errorf("revoked, again = %d", a.status)
		}
	})
}

func TestTheSchemeOfAKeyHasNoCase(t *testing.T) {
	h := newHouse(t, "sqlite")
	key := h.key("acme", 0, job.ScopeView)
	for scheme, status := range map[string]int{"Bearer": 200, "bearer": 200, "BEARER ": 200, "Basic": 401} {
		if a := h.ask("", "GET", "/v1/account", nil, "Authorization", scheme+" "+key); a.status != status {
			t.Errorf("%s = %d %s", scheme, a.status, a.text)
		}
	}
}
