package localsqs

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
)

type state uint8

const (
	stateDelayed state = iota
	stateReady
	stateInFlight
)

// message is one message in one queue. The first block never changes once the message is queued, so replies may read it
// without the server's lock; a move to another queue makes a new message. The second block is guarded by Server.mu.
type message struct {
	id       uuid
	bodyMD5  [md5.Size]byte
	body     string
	attrs    []attribute // sorted by name
	trace    string
	group    string
	dedupID  string
	dlqFrom  string // ARN of the queue that a redrive policy moved it out of
	seq      int64  // unique and rising within the queue; FIFO order
	sent     int64  // unix nanoseconds, as reported
	enqueued int64  // unix nanoseconds, start of retention

	tenant    *group
	state     state
	touched   bool  // visibility was changed since the latest receive
	order     int64 // place among the ready messages
	deadline  int64 // end of delay or of visibility
	received  int64 // latest receive
	first     int64 // first receive, 0 if never
	receives  int32 // over all queues, as reported
	here      int32 // receives in this queue, what a redrive policy counts
	readySlot int32
	timerSlot int32
}

// delivery is what one receive saw of a message; the counters are copies because later receives change the message.
type delivery struct {
	*message
	receives int32
	here     int32
	first    int64
	repeated bool // handed out again to the same caller, who may hold it already
}

// uuid is a random (version 4) identifier.
type uuid [16]byte

func newUUID() (id uuid) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (id uuid) String() string {
	var b [36]byte
	hex.Encode(b[:8], id[:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:], id[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// sequenceBase lifts sequence numbers to the twenty digits that SQS shows.
const sequenceBase = 18_000_000_000_000_000_000

func sequenceNumber(seq int64) string {
	return strconv.FormatUint(sequenceBase+uint64(seq), 10)
}

// A receipt handle names one delivery: queue incarnation, message, how many times it had been received here, check sum.
const handleBytes = 8 + 8 + 4 + 4

func receiptHandle(queueID uint64, seq int64, here int32) string {
	var b [handleBytes]byte // a whole number of base64 quartets, so nothing is padded
	binary.BigEndian.PutUint64(b[0:], queueID)
	binary.BigEndian.PutUint64(b[8:], uint64(seq))
	binary.BigEndian.PutUint32(b[16:], uint32(here))
	binary.BigEndian.PutUint32(b[20:], handleSum(queueID, seq, here))
	return base64.StdEncoding.EncodeToString(b[:])
}

// parseHandle reports false for anything that this queue did not issue.
func parseHandle(handle string, queueID uint64) (seq int64, here int32, ok bool) {
	var b [handleBytes]byte
	if len(handle) != base64.StdEncoding.EncodedLen(handleBytes) {
		return 0, 0, false
	}
	if n, err := base64.StdEncoding.Decode(b[:], []byte(handle)); err != nil || n != handleBytes {
		return 0, 0, false
	}
	seq, here = int64(binary.BigEndian.Uint64(b[8:])), int32(binary.BigEndian.Uint32(b[16:]))
	if binary.BigEndian.Uint64(b[:]) != queueID || binary.BigEndian.Uint32(b[20:]) != handleSum(queueID, seq, here) {
		return 0, 0, false
	}
	return seq, here, true
}

// handleSum tells a handle from a mistyped one. It need not withstand forgery.
func handleSum(queueID uint64, seq int64, here int32) uint32 {
	const odd = 0x9E3779B97F4A7C15
	h := (queueID ^ uint64(seq)) * odd
	h = (h ^ h>>32 ^ uint64(here)) * odd
	return uint32(h >> 32)
}
