package localsqs

import (
	"crypto/md5"
	"encoding/hex"
	"time"
)

type sendEntry struct {
	Id                      string
	MessageBody             string
	DelaySeconds            *int
	MessageAttributes       map[string]attributeValue
	MessageSystemAttributes map[string]attributeValue
	MessageDeduplicationId  string
	MessageGroupId          string
}

type sendInput struct {
	target
	sendEntry
	draft *draft
	err   error // why there is no draft
}

type sendOutput struct {
	Id                           string `json:",omitempty"`
	MessageId                    string
	MD5OfMessageBody             string
	MD5OfMessageAttributes       string `json:",omitempty"`
	MD5OfMessageSystemAttributes string `json:",omitempty"`
	SequenceNumber               string `json:",omitempty"`
}

// draft is a checked send that needs only a queue to become a message.
type draft struct {
	*sendEntry
	attrs   []attribute
	system  []attribute
	bodyMD5 [md5.Size]byte
	size    int
}

func send(s *Server, _ *call, q *queue, in *sendInput, now int64) (any, error) {
	if in.err != nil {
		return nil, in.err
	}
	out, err := q.send(in.draft, now)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// prepare does what needs no lock: checks and checksums.
func (in *sendInput) prepare() { in.draft, in.err = newDraft(&in.sendEntry) }

// newDraft makes the checks that do not depend on the queue.
func newDraft(e *sendEntry) (*draft, error) {
	if e.MessageBody == "" {
		return nil, missingParameter("MessageBody")
	}
	if !validText(e.MessageBody) {
		return nil, badRequest("InvalidMessageContents", "InvalidMessageContents", "Message must be valid text without disallowed characters.")
	}
	d := &draft{sendEntry: e, size: len(e.MessageBody)}
	var err error
	if d.attrs, err = checkAttributes(e.MessageAttributes); err != nil {
		return nil, err
	}
	for _, a := range d.attrs {
		d.size += a.size()
	}
	if d.system, err = checkSystemAttributes(e.MessageSystemAttributes); err != nil {
		return nil, err
	}
	if e.DelaySeconds != nil && (*e.DelaySeconds < 0 || *e.DelaySeconds > maxDelay) {
		return nil, invalidValue("DelaySeconds", *e.DelaySeconds, "DelaySeconds must be >= 0 and <= 900.")
	}
	d.bodyMD5 = textMD5(e.MessageBody)
	return d, nil
}

func textMD5(s string) [md5.Size]byte {
	buf := borrow() // spares the collector a copy of every body
	defer giveBack(buf)
	buf.WriteString(s)
	return md5.Sum(buf.Bytes())
}

// send makes the checks that depend on the queue and stores the message, or recognises it as a duplicate.
func (q *queue) send(d *draft, now int64) (sendOutput, error) {
	if d.size > q.maxBytes {
		return sendOutput{}, invalidParameter("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", q.maxBytes)
	}
	dedupID, err := q.checkIDs(d)
	if err != nil {
		return sendOutput{}, err
	}
	m := &message{
		id: newUUID(), bodyMD5: d.bodyMD5, body: d.MessageBody, attrs: d.attrs, group: d.MessageGroupId, dedupID: dedupID,
		sent: now, enqueued: now, state: stateReady,
	}
	if len(d.system) > 0 {
		m.trace = d.system[0].text
	}
	delay := q.delay
	if d.DelaySeconds != nil && !q.fifo {
		delay = time.Duration(*d.DelaySeconds) * time.Second
	}
	if delay > 0 {
		m.state, m.deadline = stateDelayed, now+int64(delay)
	}
	if !q.fifo {
		q.enqueue(m)
		return d.output(m.id, ""), nil
	}
	key := q.dedupKey(m.group, dedupID)
	if e, ok := q.dedup.find(key); ok {
		q.flow.duplicate++
		return d.output(e.id, sequenceNumber(e.seq)), nil
	}
	q.enqueue(m)
	e := dedupEntry{at: now, seq: m.seq, id: m.id}
	q.dedup.remember(key, e)
	q.server.journal.remembered(q, key, e)
	return d.output(m.id, sequenceNumber(m.seq)), nil
}

func (q *queue) dedupKey(group, id string) dedupKey {
	if q.perGroup {
		return newDedupKey(group, id)
	}
	return newDedupKey("", id)
}

// checkIDs returns the deduplication id that applies, empty on standard queues.
func (q *queue) checkIDs(d *draft) (string, error) {
	if d.MessageGroupId != "" && !validID(d.MessageGroupId) {
		return "", invalidValue("MessageGroupId", clip(d.MessageGroupId), "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	}
	if !q.fifo {
		if d.MessageDeduplicationId != "" {
			return "", invalidValue("MessageDeduplicationId", clip(d.MessageDeduplicationId), "The request includes a parameter that is not valid for this queue type.")
		}
		return "", nil
	}
	switch {
	case d.DelaySeconds != nil && *d.DelaySeconds != 0:
		return "", invalidValue("DelaySeconds", *d.DelaySeconds, "The request include parameter that is not valid for this queue type.")
	case d.MessageGroupId == "":
		return "", missingParameter("MessageGroupId")
	case d.MessageDeduplicationId == "" && !q.contentHash:
		return "", invalidParameter("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	case d.MessageDeduplicationId == "":
		return contentDedupID(d.MessageBody), nil
	case !validID(d.MessageDeduplicationId):
		return "", invalidValue("MessageDeduplicationId", clip(d.MessageDeduplicationId), "MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	}
	return d.MessageDeduplicationId, nil
}

func (d *draft) output(id uuid, sequence string) sendOutput {
	return sendOutput{
		Id: d.Id, MessageId: id.String(), MD5OfMessageBody: hex.EncodeToString(d.bodyMD5[:]),
		MD5OfMessageAttributes: attributesMD5(d.attrs), MD5OfMessageSystemAttributes: attributesMD5(d.system), SequenceNumber: sequence,
	}
}
