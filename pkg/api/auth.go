package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// Keyring is what the API needs of the record to know and to keep keys.
type Keyring interface {
	CheckKey(ctx context.Context, secret string) (job.Key, error)
	HasKeys(ctx context.Context) (bool, error)
	Keys(ctx context.Context, tenant string) ([]job.Key, error)
	CreateKey(ctx context.Context, r job.KeyRequest, who string) (job.NewKey, error)
	RotateKey(ctx context.Context, id string, overlap time.Duration, who string) (job.NewKey, error)
	RevokeKey(ctx context.Context, id, who string) error
}

// DefaultPerMinute is how many requests a minute a key has that says nothing else; a sixth of a key's minute may come at once.
const DefaultPerMinute = 600

const burstShare = 6

// gate finds out who asks and whether they ask too often. Keys are looked at anew for every request, so that a revoked one
// ends at once. Rates are counted by each server for itself.
type gate struct {
	keys   Keyring
	locked func() // told, at least once, that there are keys

	proxies proxies
	guesses *guesses

	mu    sync.Mutex
	rates map[string]*rate.Limiter // by key identifier; guarded by mu
}

func newGate(keys Keyring, trusted proxies, locked func()) *gate {
	return &gate{keys: keys, proxies: trusted, locked: locked, guesses: newGuesses(), rates: map[string]*rate.Limiter{}}
}

// caller is who makes a request, or the problem that nobody known does.
func (g *gate) caller(r *http.Request) (caller, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret, ok := strings.TrimSpace(secret), strings.EqualFold(scheme, "Bearer")
	client, told := g.proxies.clientOf(r)
	if wait := g.guesses.wait(client, secret); wait > 0 {
		p := problem(http.StatusTooManyRequests, "guesses", "Too many requests without a valid key have come from this address.")
		p.RetryAfter = wait
		return caller{}, p
	}
	if !ok {
		return g.keyless(r, client, told)
	}
	key, err := g.keys.CheckKey(r.Context(), secret)
	if errors.Is(err, job.ErrKey) {
		g.guesses.wrong(client, secret)
		if locked, err := g.keys.HasKeys(r.Context()); err == nil && !locked {
			return caller{}, problem(http.StatusUnauthorized, "key", "The API key is another fleet's: this one has no keys yet, and takes requests without any.")
		}
		return caller{}, problem(http.StatusUnauthorized, "key", "%s.", sentence(err))
	}
	if err != nil {
		return caller{}, err
	}
	g.guesses.right(secret)
	return caller{tenant: key.Tenant, scopes: key.Scopes, key: key.ID}, g.pace(key)
}

// keyless is a request without a key: the local operator's, until there are keys, unless a proxy has it from somewhere else.
func (g *gate) keyless(r *http.Request, client netip.Addr, told bool) (caller, error) {
	locked, err := g.keys.HasKeys(r.Context())
	if err != nil {
		return caller{}, err
	}
	if !locked && told && !client.IsLoopback() {
		return caller{}, errNotLoopback
	}
	if !locked {
		return localOperator, guarded(r)
	}
	g.locked()
	g.guesses.wrong(client, "")
	return caller{}, problem(http.StatusUnauthorized, "no_key", "The fleet has keys; send one as Authorization: Bearer KEY.")
}

// pace takes one request from a key's minute.
func (g *gate) pace(key job.Key) error {
	perMinute := float64(key.PerMinute)
	if perMinute == 0 {
		perMinute = DefaultPerMinute
	}
	g.mu.Lock()
	limiter := g.rates[key.ID]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Limit(perMinute/60), max(1, int(perMinute/burstShare)))
		g.rates[key.ID] = limiter
	}
	g.mu.Unlock()
	taken := limiter.Reserve()
	wait := taken.Delay()
	if wait == 0 {
		return nil
	}
	taken.Cancel()
	p := problem(http.StatusTooManyRequests, "rate", "The key makes more than its %.0f requests a minute.", perMinute)
	p.RetryAfter = wait
	return p
}

// sentence begins an error's text as sentences begin.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
