package localsqs

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// attributeValue is a message attribute on the wire.
type attributeValue struct {
	DataType         string
	StringValue      *string  `json:",omitempty"`
	BinaryValue      []byte   `json:",omitempty"`
	StringListValues []string `json:",omitempty"`
	BinaryListValues [][]byte `json:",omitempty"`
}

// attribute is a checked message attribute. text holds the value's bytes, binary or not.
type attribute struct {
	name, kind, text string
	binary           bool
}

func (a attribute) size() int { return len(a.name) + len(a.kind) + len(a.text) }

func (a attribute) wire() attributeValue {
	if a.binary {
		return attributeValue{DataType: a.kind, BinaryValue: []byte(a.text)}
	}
	return attributeValue{DataType: a.kind, StringValue: &a.text}
}

// Limits of message attributes. Source: SQS developer guide, "Amazon SQS message metadata".
const (
	maxAttributes        = 10
	maxAttributeNameSize = 256
)

var attributeName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// checkAttributes returns the attributes sorted by name, the order in which they are hashed.
func checkAttributes(given map[string]attributeValue) ([]attribute, error) {
	if len(given) > maxAttributes {
		return nil, invalidParameter("Number of message attributes [%d] exceeds the allowed maximum [%d].", len(given), maxAttributes)
	}
	var attrs []attribute
	for name, value := range given {
		lower := strings.ToLower(name)
		if len(name) > maxAttributeNameSize || !attributeName.MatchString(name) || strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
			return nil, invalidParameter("The message attribute name %q is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters.", clip(name))
		}
		a, err := checkAttributeValue(name, value)
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, a)
	}
	slices.SortFunc(attrs, func(a, b attribute) int { return strings.Compare(a.name, b.name) })
	return attrs, nil
}

func checkAttributeValue(name string, v attributeValue) (attribute, error) {
	a := attribute{name: name, kind: v.DataType}
	base, _, _ := strings.Cut(v.DataType, ".")
	if len(v.StringListValues) > 0 || len(v.BinaryListValues) > 0 {
		return a, errUnsupported("Message attribute list values in message attribute %q are not supported.", clip(name))
	}
	switch base {
	case "String", "Number":
		if v.StringValue == nil || *v.StringValue == "" || v.BinaryValue != nil {
			return a, invalidParameter("The message attribute %q must contain a non-empty message attribute value of type %q.", clip(name), clip(v.DataType))
		}
		a.text = *v.StringValue
	case "Binary":
		if len(v.BinaryValue) == 0 || v.StringValue != nil {
			return a, invalidParameter("The message attribute %q must contain a non-empty message attribute value of type %q.", clip(name), clip(v.DataType))
		}
		a.text, a.binary = string(v.BinaryValue), true
	default:
		return a, invalidParameter("The type of message attribute %q is invalid. You must use only the following supported type prefixes: Binary, Number, String.", clip(name))
	}
	if len(v.DataType) > maxAttributeNameSize {
		return a, invalidParameter("The type of message attribute %q is longer than %d bytes.", clip(name), maxAttributeNameSize)
	}
	if base == "Number" {
		if _, err := strconv.ParseFloat(a.text, 64); err != nil {
			return a, invalidParameter("Can't cast the value of message attribute %q to a number.", clip(name))
		}
	}
	if !a.binary && !validText(a.text) {
		return a, badRequest("InvalidMessageContents", "InvalidMessageContents", "Message attribute %q contains disallowed characters.", clip(name))
	}
	return a, nil
}

const traceHeader = "AWSTraceHeader"

func checkSystemAttributes(given map[string]attributeValue) ([]attribute, error) {
	for name, value := range given {
		if name != traceHeader || value.DataType != "String" {
			return nil, invalidParameter("Message system attribute %q is invalid: only %s of type String is allowed.", clip(name), traceHeader)
		}
	}
	return checkAttributes(given)
}

// attributesMD5 is the digest that SDKs check, empty for no attributes.
// Source: SQS developer guide, "Amazon SQS message metadata", MD5 message digest for message attributes.
func attributesMD5(attrs []attribute) string {
	if len(attrs) == 0 {
		return ""
	}
	h := md5.New()
	write := func(s string) {
		_ = binary.Write(h, binary.BigEndian, uint32(len(s)))
		_, _ = h.Write([]byte(s))
	}
	for _, a := range attrs {
		write(a.name)
		write(a.kind)
		if a.binary {
			_, _ = h.Write([]byte{2})
		} else {
			_, _ = h.Write([]byte{1})
		}
		write(a.text)
	}
	return hex.EncodeToString(h.Sum(nil))
}
