package localsqs

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// written is an output that writes itself; the others are written by encoding/json.
type written interface{ appendJSON(b []byte) []byte }

func encodeOutput(b []byte, out any) ([]byte, error) {
	if w, ok := out.(written); ok {
		return w.appendJSON(b), nil
	}
	text, err := json.Marshal(out)
	return append(b, text...), err
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends a JSON string. The text is valid UTF-8: nothing else is accepted by the server.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := plainRun(s); i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return append(append(b, s[start:]...), '"')
}

// appendMember appends a member unless it is empty; the caller's object already has one.
func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendQuoted(append(append(append(b, `,"`...), name...), `":`...), value)
}

func appendList[E any](b []byte, items []E, item func([]byte, *E) []byte) []byte {
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, &items[i])
	}
	return append(b, ']')
}

func (out *receiveOutput) appendJSON(b []byte) []byte {
	if len(out.Messages) == 0 {
		return append(b, '{', '}')
	}
	return append(appendList(append(b, `{"Messages":`...), out.Messages, appendReceived), '}')
}

func appendReceived(b []byte, m *receivedMessage) []byte {
	b = appendQuoted(append(b, `{"MessageId":`...), m.MessageId)
	b = appendMember(b, "ReceiptHandle", m.ReceiptHandle)
	b = appendMember(b, "MD5OfBody", m.MD5OfBody)
	b = appendMember(b, "Body", m.Body)
	b = appendMember(b, "MD5OfMessageAttributes", m.MD5OfMessageAttributes)
	if len(m.MessageAttributes) > 0 {
		text, _ := json.Marshal(m.MessageAttributes) // strings and bytes cannot fail
		b = append(append(b, `,"MessageAttributes":`...), text...)
	}
	if len(m.Attributes) > 0 {
		b = append(b, `,"Attributes":`...)
		separator := byte('{')
		for _, name := range slices.Sorted(maps.Keys(m.Attributes)) {
			b = appendQuoted(append(b, separator), name)
			b = appendQuoted(append(b, ':'), m.Attributes[name])
			separator = ','
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

func (out *batchOutput) appendJSON(b []byte) []byte {
	b = appendList(append(b, `{"Successful":`...), out.Successful, appendSent)
	b = appendList(append(b, `,"Failed":`...), out.Failed, appendFailure)
	return append(b, '}')
}

// appendSent also writes the successes of other batches, which have an id only.
func appendSent(b []byte, out *sendOutput) []byte {
	b = appendQuoted(append(b, `{"Id":`...), out.Id)
	b = appendMember(b, "MessageId", out.MessageId)
	b = appendMember(b, "MD5OfMessageBody", out.MD5OfMessageBody)
	b = appendMember(b, "MD5OfMessageAttributes", out.MD5OfMessageAttributes)
	b = appendMember(b, "MD5OfMessageSystemAttributes", out.MD5OfMessageSystemAttributes)
	b = appendMember(b, "SequenceNumber", out.SequenceNumber)
	return append(b, '}')
}

func appendFailure(b []byte, f *failure) []byte {
	b = appendQuoted(append(b, `{"Id":`...), f.Id)
	b = appendMember(b, "Code", f.Code)
	b = appendMember(b, "Message", f.Message)
	b = strconv.AppendBool(append(b, `,"SenderFault":`...), f.SenderFault)
	return append(b, '}')
}
