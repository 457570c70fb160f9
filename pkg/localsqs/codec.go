package localsqs

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// An effect is one change, as the journal stores it: a kind, then fields in a fixed order. Effects carry absolute values,
// never differences, so that replaying needs no clock.
type effectKind byte

const (
	effectQueue   effectKind = iota + 1 // a queue with its attributes, new or changed
	effectRemoved                       // a queue was deleted
	effectPurged
	effectAdded   // a message in full
	effectState   // a message's delivery state
	effectDropped // a message is gone
	effectDedup
	effectTask
	effectEnd     // the last of a snapshot
	effectAttempt // what a receive with an attempt id returned; nothing if that was taken back
)

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendMap(b []byte, m map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = appendString(appendString(b, k), m[k])
	}
	return b
}

func appendInts(b []byte, values ...int64) []byte {
	for _, v := range values {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// begin starts an effect on a queue.
func begin(b []byte, kind effectKind, queueID uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(kind)), queueID)
}

func appendQueue(b []byte, q *queue) []byte {
	b = begin(b, effectQueue, q.id)
	b = appendBool(appendString(b, q.name), q.fifo)
	b = appendInts(b, q.created, q.modified, q.purged, q.lastSeq)
	return appendMap(appendMap(b, q.given), q.tags)
}

func appendMessage(b []byte, queueID uint64, m *message) []byte {
	b = begin(b, effectAdded, queueID)
	b = append(append(b, m.id[:]...), m.bodyMD5[:]...)
	for _, s := range []string{m.body, m.trace, m.group, m.dedupID, m.dlqFrom} {
		b = appendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(m.attrs)))
	for _, a := range m.attrs {
		b = appendBool(appendString(appendString(appendString(b, a.name), a.kind), a.text), a.binary)
	}
	b = appendInts(b, m.seq, m.sent, m.enqueued, m.order)
	return appendDelivery(b, m)
}

func appendDelivery(b []byte, m *message) []byte {
	b = appendBool(append(b, byte(m.state)), m.touched)
	return appendInts(b, m.deadline, m.received, m.first, int64(m.receives), int64(m.here))
}

func appendState(b []byte, queueID uint64, m *message) []byte {
	return appendDelivery(appendInts(begin(b, effectState, queueID), m.seq), m)
}

func appendDedup(b []byte, queueID uint64, k dedupKey, e dedupEntry) []byte {
	b = append(begin(b, effectDedup, queueID), k[:]...)
	return appendInts(append(b, e.id[:]...), e.at, e.seq)
}

func appendAttempt(b []byte, queueID uint64, id string, a attempt) []byte {
	b = appendInts(appendString(begin(b, effectAttempt, queueID), id), a.at, int64(len(a.got)))
	for _, d := range a.got {
		b = appendInts(b, d.seq, int64(d.receives), int64(d.here), d.first)
	}
	return b
}

var errShort = errors.New("record ends early")

// decoder reads what the append functions wrote. After the first error it returns zero values.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail(errShort)
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bool() bool { return d.byte() != 0 }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) strings() map[string]string {
	m := map[string]string{}
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		k := d.string()
		m[k] = d.string()
	}
	return m
}

func (d *decoder) queueID() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) message() *message {
	m := &message{}
	copy(m.id[:], d.bytes(uint64(len(m.id))))
	copy(m.bodyMD5[:], d.bytes(uint64(len(m.bodyMD5))))
	for _, s := range []*string{&m.body, &m.trace, &m.group, &m.dedupID, &m.dlqFrom} {
		*s = d.string()
	}
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		m.attrs = append(m.attrs, attribute{name: d.string(), kind: d.string(), text: d.string(), binary: d.bool()})
	}
	m.seq, m.sent, m.enqueued, m.order = d.int(), d.int(), d.int(), d.int()
	d.delivery(m)
	return m
}

func (d *decoder) delivery(m *message) {
	m.state, m.touched = state(d.byte()), d.bool()
	if m.state > stateInFlight {
		d.fail(errors.New("unknown message state"))
		m.state = stateReady
	}
	m.deadline, m.received, m.first = d.int(), d.int(), d.int()
	m.receives, m.here = int32(d.int()), int32(d.int())
}

// attempt looks the messages up by their numbers. Without one of them an attempt cannot be repeated, so it comes back empty.
func (d *decoder) attempt(messages map[int64]*message) (id string, a attempt) {
	id, a.at = d.string(), d.int()
	whole := true
	for n := d.int(); n > 0 && d.err == nil; n-- {
		m := messages[d.int()]
		whole = whole && m != nil
		a.got = append(a.got, delivery{message: m, receives: int32(d.int()), here: int32(d.int()), first: d.int()})
	}
	if !whole {
		a.got = nil
	}
	return id, a
}

func (d *decoder) dedup() (k dedupKey, e dedupEntry) {
	copy(k[:], d.bytes(uint64(len(k))))
	copy(e.id[:], d.bytes(uint64(len(e.id))))
	e.at, e.seq = d.int(), d.int()
	return k, e
}
