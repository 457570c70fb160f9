package localsqs

import (
	"errors"
)

const maxBatch = 10

type failure struct {
	Id          string
	Code        string
	Message     string
	SenderFault bool
}

// batchOutput is the reply of every batch; the successes of other batches than sends have an id only.
type batchOutput struct {
	Successful []sendOutput
	Failed     []failure
}

type sendBatchInput struct {
	target
	Entries []sendEntry
	drafts  []*draft // by entry, or nil where the error is
	errs    []error
	total   int // bytes of all drafts
}

type deleteBatchInput struct {
	target
	Entries []deleteEntry
}

type visibilityBatchInput struct {
	target
	Entries []visibilityEntry
}

func (out *batchOutput) fail(id string, err error) {
	e := asAPIError(err)
	out.Failed = append(out.Failed, failure{Id: id, Code: e.legacy, Message: e.message, SenderFault: e.fault() == "Sender"})
}

// checkBatch makes the checks that fail a batch as a whole.
func checkBatch[E any](entries []E, id func(*E) string) error {
	if len(entries) == 0 {
		return prefixed("EmptyBatchRequest", "There should be at least one entry in the request.")
	}
	if len(entries) > maxBatch {
		return prefixed("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxBatch, len(entries))
	}
	for i := range entries {
		own := id(&entries[i])
		if !validEntryID(own) {
			return prefixed("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		for before := range i {
			if id(&entries[before]) == own {
				return prefixed("BatchEntryIdsNotDistinct", "Id %s repeated.", own)
			}
		}
	}
	return nil
}

func sendBatch(_ *Server, c *call, q *queue, in *sendBatchInput, now int64) (any, error) {
	if err := checkBatch(in.Entries, func(e *sendEntry) string { return e.Id }); err != nil {
		return nil, err
	}
	if in.total > maxMessageBytes {
		return nil, prefixed("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxMessageBytes, in.total)
	}
	out, spared := &batchOutput{Successful: make([]sendOutput, 0, maxBatch)}, c.strike.spares(len(in.drafts))
	for i, d := range in.drafts {
		err := in.errs[i]
		if err == nil && !spared(i) {
			err = errInternal("A fault was asked for.")
		}
		if err == nil {
			var sent sendOutput
			if sent, err = q.send(d, now); err == nil {
				out.Successful = append(out.Successful, sent)
				continue
			}
		}
		out.fail(in.Entries[i].Id, err)
	}
	return out, nil
}

// prepare does what needs no lock: checks and checksums.
func (in *sendBatchInput) prepare() {
	if len(in.Entries) > maxBatch {
		return // refused as a whole
	}
	in.drafts, in.errs = make([]*draft, 0, maxBatch), make([]error, 0, maxBatch)
	for i := range in.Entries {
		d, err := newDraft(&in.Entries[i])
		in.drafts, in.errs = append(in.drafts, d), append(in.errs, err)
		if err == nil {
			in.total += d.size
		}
	}
}

func deleteBatch(_ *Server, c *call, q *queue, in *deleteBatchInput, now int64) (any, error) {
	return each(c, in.Entries, func(e *deleteEntry) string { return e.Id }, func(e *deleteEntry) error { return entryHandle(q.settle(e, now)) })
}

func changeVisibilityBatch(_ *Server, c *call, q *queue, in *visibilityBatchInput, now int64) (any, error) {
	return each(c, in.Entries, func(e *visibilityEntry) string { return e.Id }, func(e *visibilityEntry) error { return entryHandle(q.changeVisibility(e, now)) })
}

// entryHandle gives an expired handle the code that it has inside a batch.
func entryHandle(err error) error {
	if err == nil {
		return nil
	}
	var e *apiError
	if errors.As(err, &e) && e.expired {
		return badRequest("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", "%s", e.message)
	}
	return err
}

func each[E any](c *call, entries []E, id func(*E) string, run func(*E) error) (any, error) {
	if err := checkBatch(entries, id); err != nil {
		return nil, err
	}
	out, spared := &batchOutput{Successful: make([]sendOutput, 0, maxBatch)}, c.strike.spares(len(entries))
	for i := range entries {
		e := &entries[i]
		if !spared(i) {
			out.fail(id(e), errInternal("A fault was asked for."))
		} else if err := run(e); err != nil {
			out.fail(id(e), err)
		} else {
			out.Successful = append(out.Successful, sendOutput{Id: id(e)})
		}
	}
	return out, nil
}
