package envelope

import (
	"crypto/rand"
	"strings"
	"time"
)

// alphabet is Crockford's base 32 in lower case: no i, l, o or u, sorted in ASCII order.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID returns 26 characters: 10 for the milliseconds of now, 16 random ones (80 bits). Identifiers of
// different milliseconds sort by time. Safe for concurrent use.
func NewID(now time.Time) string {
	var id [26]byte
	ms := uint64(now.UnixMilli())
	for i := 9; i >= 0; i-- {
		id[i] = alphabet[ms&31]
		ms >>= 5
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	for i, b := range random {
		id[10+i] = alphabet[b&31]
	}
	return string(id[:])
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
