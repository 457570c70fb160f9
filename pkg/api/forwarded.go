package api

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are the addresses of proxies that are trusted to say for whom they ask.
type proxies []netip.Prefix

func (p proxies) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(one netip.Prefix) bool { return one.Contains(a) })
}

// clientOf is the address of who makes a request, and whether a proxy has told it. Each proxy adds to X-Forwarded-For whom it was
// asked by, so that the header is read from its end, for as long as a trusted one has written: the rest may be anybody's.
func (p proxies) clientOf(r *http.Request) (client netip.Addr, told bool) {
	client = addressOf(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next := addressOf(strings.TrimSpace(hop))
		if !p.trusts(client) || !next.IsValid() {
			break
		}
		client, told = next, true
	}
	return client, told
}

// addressOf reads an address with or without a port; the zero address is none.
func addressOf(text string) netip.Addr {
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		var with netip.AddrPort
		with, err = netip.ParseAddrPort(text)
		a = with.Addr()
	}
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
