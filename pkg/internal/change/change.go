// Package change lets any number of goroutines wait until something that they look at under its owner's lock may look different.
// It carries no value and counts nothing: who is woken looks again. The gates of a pool are built on it.
package change

import "sync"

// Signal wakes all who wait. The zero value is ready; it must not be copied.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next returns a channel that the next Fire closes. Ask for it before looking at the state, or a change may be missed.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Fire wakes everybody who waits now.
func (s *Signal) Fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
