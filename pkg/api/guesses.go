package api

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Requests without a valid key that an address may make: so many at once, so many a minute.
const (
	guessBurst     = 20
	guessPerMinute = 30
	maxGuessers    = 4096 // addresses, and keys, that are remembered
)

// guesses bounds what requests without a valid key cost: an address that makes too many is refused before anything is looked up.
// Keys that were valid before pass, so that somebody behind the same address, as behind one load balancer, locks nobody out.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Prefix]*rate.Limiter // guarded by mu
	good map[[sha256.Size]byte]bool     // hashes of secrets that were valid; guarded by mu
}

func newGuesses() *guesses {
	return &guesses{from: map[netip.Prefix]*rate.Limiter{}, good: map[[sha256.Size]byte]bool{}}
}

// wait is how long an address must wait before it may try a secret that nobody has used before; 0: it may now.
func (g *guesses) wait(address netip.Addr, secret string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	limiter := g.from[neighbourhood(address)]
	if limiter == nil || g.good[sha256.Sum256([]byte(secret))] {
		return 0
	}
	if missing := 1 - limiter.Tokens(); missing > 0 {
		return time.Duration(missing * float64(time.Minute) / guessPerMinute)
	}
	return 0
}

// wrong counts a request without a valid key.
func (g *guesses) wrong(address netip.Addr, secret string) {
	from := neighbourhood(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.good, sha256.Sum256([]byte(secret)))
	limiter := g.from[from]
	if limiter == nil {
		makeRoom(g.from, func(l *rate.Limiter) bool { return l.Tokens() >= guessBurst })
		limiter = rate.NewLimiter(rate.Limit(guessPerMinute)/60, guessBurst)
		g.from[from] = limiter
	}
	limiter.Allow()
}

// right remembers a valid key.
func (g *guesses) right(secret string) {
	sum := sha256.Sum256([]byte(secret))
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.good[sum] {
		makeRoom(g.good, func(bool) bool { return false })
		g.good[sum] = true
	}
}

// makeRoom forgets what says nothing any more, or else anything, so that a map stays small.
func makeRoom[K comparable, V any](m map[K]V, idle func(V) bool) {
	if len(m) < maxGuessers {
		return
	}
	for k, v := range m {
		if idle(v) {
			delete(m, k)
		}
	}
	for k := range m {
		if len(m) < maxGuessers {
			return
		}
		delete(m, k)
	}
}

// neighbourhood is what one party is taken to have: an IPv4 address, or the /64 of an IPv6 one.
func neighbourhood(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	near, _ := address.Prefix(bits) // none of what is no address
	return near
}
