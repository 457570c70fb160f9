package localsqs

import (
	"encoding/json"
)

// direct is an input that reads itself; the others are read by encoding/json.
type direct interface{ read(r *jsonReader) }

func decodeInput(body []byte, in any) error {
	d, ok := in.(direct)
	if !ok {
		return json.Unmarshal(body, in)
	}
	r := &jsonReader{rest: body}
	d.read(r)
	if r.err == nil && r.peek() != 0 {
		r.fail()
	}
	return r.err
}

func (e *sendEntry) member(r *jsonReader, name []byte) {
	switch string(name) {
	case "Id":
		e.Id = r.text()
	case "MessageBody":
		e.MessageBody = r.text()
	case "DelaySeconds":
		e.DelaySeconds = r.integer()
	case "MessageGroupId":
		e.MessageGroupId = r.text()
	case "MessageDeduplicationId":
		e.MessageDeduplicationId = r.text()
	case "MessageAttributes":
		r.into(&e.MessageAttributes)
	case "MessageSystemAttributes":
		r.into(&e.MessageSystemAttributes)
	default:
		r.skip()
	}
}

func (in *sendInput) read(r *jsonReader) {
	r.object(func(name []byte) {
		if string(name) == "QueueUrl" {
			in.QueueUrl = r.text()
			return
		}
		in.member(r, name)
	})
}

// readBatch reads an input of a queue and entries.
func readBatch[E any](r *jsonReader, url *string, entries *[]E, member func(e *E, name []byte)) {
	r.object(func(name []byte) {
		switch string(name) {
		case "QueueUrl":
			*url = r.text()
		case "Entries":
			r.array(func() {
				var none E
				if *entries == nil {
					*entries = make([]E, 0, maxBatch)
				}
				*entries = append(*entries, none)
				e := &(*entries)[len(*entries)-1]
				r.object(func(name []byte) { member(e, name) })
			})
		default:
			r.skip()
		}
	})
}

func (in *sendBatchInput) read(r *jsonReader) {
	readBatch(r, &in.QueueUrl, &in.Entries, func(e *sendEntry, name []byte) { e.member(r, name) })
}

func (in *deleteBatchInput) read(r *jsonReader) {
	readBatch(r, &in.QueueUrl, &in.Entries, func(e *deleteEntry, name []byte) {
		switch string(name) {
		case "Id":
			e.Id = r.text()
		case "ReceiptHandle":
			e.ReceiptHandle = r.text()
		default:
			r.skip()
		}
	})
}

func (in *visibilityBatchInput) read(r *jsonReader) {
	readBatch(r, &in.QueueUrl, &in.Entries, func(e *visibilityEntry, name []byte) {
		switch string(name) {
		case "Id":
			e.Id = r.text()
		case "ReceiptHandle":
			e.ReceiptHandle = r.text()
		case "VisibilityTimeout":
			e.VisibilityTimeout = r.integer()
		default:
			r.skip()
		}
	})
}

func (in *receiveInput) read(r *jsonReader) {
	r.object(func(name []byte) {
		switch string(name) {
		case "QueueUrl":
			in.QueueUrl = r.text()
		case "AttributeNames":
			in.AttributeNames = r.texts()
		case "MessageSystemAttributeNames":
			in.MessageSystemAttributeNames = r.texts()
		case "MessageAttributeNames":
			in.MessageAttributeNames = r.texts()
		case "MaxNumberOfMessages":
			in.MaxNumberOfMessages = r.integer()
		case "VisibilityTimeout":
			in.VisibilityTimeout = r.integer()
		case "WaitTimeSeconds":
			in.WaitTimeSeconds = r.integer()
		case "ReceiveRequestAttemptId":
			in.ReceiveRequestAttemptId = r.text()
		default:
			r.skip()
		}
	})
}
