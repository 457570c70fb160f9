package pool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// readySlack beyond two long polls without a successful receive, a pool is not ready.
	readySlack = 30 * time.Second
	// liveAfter as long without one, or with a heartbeat that has not woken when it should, it is not alive.
	liveAfter = 5 * time.Minute
)

// Status is what a pool does at one moment.
type Status struct {
	Slots       int       // handlers that may run at once
	Running     int       // handlers that run, stuck ones included
	Stuck       int       // handlers that do not return although their context ended long ago
	Held        int       // messages that are kept hidden
	Reason      string    // why nothing is received; empty: a receive is under way or about to be
	LastReceive time.Time // when one last succeeded; before the first: when the pool started; zero before that
}

// Status returns the present status.
func (p *Pool) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status()
}

func (p *Pool) status() Status {
	s := Status{Slots: p.cfg.Slots, Running: p.running, Stuck: p.stuck, Held: p.held.len, Reason: p.in.reason, LastReceive: p.in.lastSuccess}
	if p.intake != nil && p.intake.Err() != nil {
		s.Reason = reasonDraining
	}
	return s
}

// Ready returns nil while the pool receives, or rightly does not: paused, broken circuit, all slots taken. It is an error to have
// received nothing for longer than two long polls, to have too many stuck handlers, not to run, or to be stopping.
func (p *Pool) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status()
	switch {
	case s.LastReceive.IsZero():
		return fmt.Errorf("pool %s does not run", p.cfg.Name)
	case s.Reason == reasonDraining:
		return fmt.Errorf("pool %s is stopping", p.cfg.Name)
	case s.Stuck > 0 && s.Stuck >= p.cfg.MaxStuck:
		return fmt.Errorf("pool %s has %d stuck handlers", p.cfg.Name, s.Stuck)
	}
	return p.received(2*p.cfg.Wait + readySlack)
}

// Live returns nil unless only a restart can help: no receive succeeded for five minutes although nothing forbade it, or because more
// handlers are stuck than may be replaced and none other runs; or the heartbeat stopped. It stays nil during a stop.
func (p *Pool) Live() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in.lastSuccess.IsZero() || p.intake.Err() != nil {
		return nil
	}
	if late := time.Since(p.keeperWakes); late > liveAfter {
		return fmt.Errorf("pool %s: the heartbeat has not woken for %v", p.cfg.Name, late.Round(time.Second))
	}
	return p.received(liveAfter)
}

// received complains if the last receive is too old and nothing that can end forbade another. It runs under mu.
func (p *Pool) received(within time.Duration) error {
	over := p.in.reason == reasonStuck && p.running == p.stuck
	if age := min(time.Since(p.in.lastSuccess), time.Since(p.in.since)); (p.in.reason == "" || over) && age > within {
		return fmt.Errorf("pool %s has received nothing for %v", p.cfg.Name, age.Round(time.Second))
	}
	return nil
}

// Health serves /healthz (Live) and /readyz (Ready): 200, or 503 with the reason, and the status as JSON.
func (p *Pool) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", p.answer(p.Live))
	mux.HandleFunc("/readyz", p.answer(p.Ready))
	return mux
}

func (p *Pool) answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body := struct {
			OK     bool   `json:"ok"`
			Error  string `json:"error,omitempty"`
			Status Status `json:"status"`
		}{OK: true, Status: p.Status()}
		w.Header().Set("Content-Type", "application/json")
		if err := check(); err != nil {
			body.OK, body.Error = false, err.Error()
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(body) // the peer is gone: nobody to tell
	}
}
