package localsqs

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// dedupInterval is how long a FIFO queue remembers a deduplication id, also after the message was deleted.
// Source: SQS API reference, SendMessage.
const dedupInterval = 5 * time.Minute

// dedupWindow remembers recent deduplication ids. Entries hold no pointers, so that millions cost the collector nothing.
type dedupWindow struct {
	seen  map[dedupKey]dedupEntry
	queue []dedupKey // oldest first; head is the first that is still in
	head  int
}

type dedupKey [16]byte

type dedupEntry struct {
	at  int64 // unix nanoseconds of the first send
	seq int64
	id  uuid
}

func newDedupKey(scope, id string) (k dedupKey) {
	sum := sha256.Sum256([]byte(scope + "\x00" + id))
	copy(k[:], sum[:])
	return k
}

func contentDedupID(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func (w *dedupWindow) find(k dedupKey) (dedupEntry, bool) {
	e, ok := w.seen[k]
	return e, ok
}

func (w *dedupWindow) remember(k dedupKey, e dedupEntry) {
	if w.seen == nil {
		w.seen = map[dedupKey]dedupEntry{}
	}
	w.seen[k] = e
	w.queue = append(w.queue, k)
}

func (w *dedupWindow) expire(now int64) {
	for w.head < len(w.queue) && w.seen[w.queue[w.head]].at+int64(dedupInterval) <= now {
		delete(w.seen, w.queue[w.head])
		w.head++
	}
	if w.head > 1024 && w.head > len(w.queue)/2 {
		w.queue = append([]dedupKey(nil), w.queue[w.head:]...)
		w.head = 0
	}
}
