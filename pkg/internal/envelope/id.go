package envelope

import (
	"crypto/rand"
	"strings"
	"sync"
	"time"
)

// alphabet is Crockford's base 32 in lower case: no i, l, o or u, sorted in ASCII order.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID returns 26 characters: 10 for the milliseconds of now, 3 that count what this process has made in that millisecond, and 13
// random ones (65 bits). Identifiers of different milliseconds sort by time, those of one process in the order of their making. Safe
// for concurrent use.
func NewID(now time.Time) string {
	var id [26]byte
	ms := uint64(now.UnixMilli())
	put(id[:10], ms)
	put(id[10:13], made.next(ms))
	var random [13]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	for i, b := range random {
		id[13+i] = alphabet[b&31]
	}
	return string(id[:])
}

// put writes the last digits of n.
func put(to []byte, n uint64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = alphabet[n&31]
		n >>= 5
	}
}

// counter counts the identifiers of each of the latest milliseconds: transactions that run side by side have read the clock at
// different ones.
type counter struct {
	mu     sync.Mutex
	latest [64]struct{ ms, n uint64 } // by the last digits of ms; guarded by mu
}

var made counter

func (c *counter) next(ms uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := &c.latest[ms%uint64(len(c.latest))]
	if at.ms != ms {
		at.ms, at.n = ms, 0
	}
	at.n++
	return at.n
}

// TimeOf returns the time of an identifier of NewID, to the millisecond; the zero time if it is none.
func TimeOf(id string) time.Time {
	if len(id) != 26 {
		return time.Time{}
	}
	var ms int64
	for _, c := range []byte(id[:10]) {
		digit := strings.IndexByte(alphabet, c)
		if digit < 0 {
			return time.Time{}
		}
		ms = ms<<5 | int64(digit)
	}
	return time.UnixMilli(ms)
}
