package localsqs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads the few large requests, those that carry or settle messages, several times faster than encoding/json:
// one pass, and a string without escapes is one copy. Member names must match exactly, as every SDK sends them. After the
// first error it returns zero values.
type jsonReader struct {
	rest  []byte
	depth int
	err   error
}

// maxDepth bounds nesting, so that a hostile request cannot exhaust the stack.
const maxDepth = 32

var errJSON = errors.New("not valid JSON for this action")

func (r *jsonReader) fail() {
	r.err, r.rest = errJSON, nil
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *jsonReader) peek() byte {
	for len(r.rest) > 0 {
		switch c := r.rest[0]; c {
		case ' ', '\t', '\n', '\r':
			r.rest = r.rest[1:]
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *jsonReader) null() bool {
	if r.peek() == 'n' && bytes.HasPrefix(r.rest, []byte("null")) {
		r.rest = r.rest[len("null"):]
		return true
	}
	return false
}

// object calls member for each name; member must read the value, and may not keep the name.
func (r *jsonReader) object(member func(name []byte)) {
	r.list('{', '}', func() {
		name := r.token()
		if !r.take(':') {
			r.fail()
			return
		}
		member(name)
	})
}

// array calls element for each element; element must read it.
func (r *jsonReader) array(element func()) { r.list('[', ']', element) }

func (r *jsonReader) list(opening, closing byte, item func()) {
	if r.null() {
		return
	}
	if r.depth++; r.depth > maxDepth || !r.take(opening) {
		r.fail()
		return
	}
	defer func() { r.depth-- }()
	if r.take(closing) {
		return
	}
	for r.err == nil {
		item()
		if r.take(closing) {
			return
		}
		if !r.take(',') {
			r.fail()
		}
	}
}

// text reads a string; null is the empty one.
func (r *jsonReader) text() string { return string(r.token()) }

// token is text without a copy, where there are no escapes.
func (r *jsonReader) token() []byte {
	if r.null() {
		return nil
	}
	if !r.take('"') {
		r.fail()
		return nil
	}
	end := bytes.IndexByte(r.rest, '"')
	if end < 0 {
		r.fail()
		return nil
	}
	if bytes.IndexByte(r.rest[:end], '\\') < 0 {
		s := r.rest[:end]
		r.rest = r.rest[end+1:]
		return s
	}
	return r.escaped()
}

// escaped reads a string that has escapes, up to and with its closing quote.
func (r *jsonReader) escaped() []byte {
	out := make([]byte, 0, len(r.rest)/8)
	for {
		i := bytes.IndexAny(r.rest, `"\`)
		if i < 0 || i+1 >= len(r.rest) && r.rest[i] == '\\' {
			r.fail()
			return nil
		}
		out = append(out, r.rest[:i]...)
		if r.rest[i] == '"' {
			r.rest = r.rest[i+1:]
			return out
		}
		r.rest = r.rest[i+1:]
		if out = r.escape(out); r.err != nil {
			return nil
		}
	}
}

// escape appends the character that the escape after a backslash stands for.
func (r *jsonReader) escape(out []byte) []byte {
	c := r.rest[0]
	r.rest = r.rest[1:]
	switch c {
	case '"', '\\', '/':
		return append(out, c)
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'u':
		return utf8.AppendRune(out, r.unicode())
	}
	r.fail()
	return out
}

// unicode reads four hexadecimal digits, and a second escape if they are half of a pair.
func (r *jsonReader) unicode() rune {
	first := r.hex()
	if !utf16.IsSurrogate(first) || !bytes.HasPrefix(r.rest, []byte(`\u`)) {
		return first // a lone half becomes the replacement character
	}
	before := r.rest
	r.rest = r.rest[2:]
	if pair := utf16.DecodeRune(first, r.hex()); pair != utf8.RuneError {
		return pair
	}
	if r.err == nil {
		r.rest = before
	}
	return utf8.RuneError
}

func (r *jsonReader) hex() rune {
	if len(r.rest) < 4 {
		r.fail()
		return 0
	}
	n, err := strconv.ParseUint(string(r.rest[:4]), 16, 16)
	if err != nil {
		r.fail()
		return 0
	}
	r.rest = r.rest[4:]
	return rune(n)
}

// integer reads a whole number, nil for null.
func (r *jsonReader) integer() *int {
	if r.null() {
		return nil
	}
	r.peek()
	end := 0
	for end < len(r.rest) && (r.rest[end] == '-' || r.rest[end] >= '0' && r.rest[end] <= '9') {
		end++
	}
	n, err := strconv.Atoi(string(r.rest[:end]))
	if err != nil {
		r.fail()
		return nil
	}
	r.rest = r.rest[end:]
	return &n
}

func (r *jsonReader) texts() (all []string) {
	r.array(func() { all = append(all, r.text()) })
	return all
}

// raw returns the next value as it is written, for members that are rare enough for encoding/json.
func (r *jsonReader) raw() []byte {
	d := json.NewDecoder(bytes.NewReader(r.rest))
	var value json.RawMessage
	if r.err != nil || d.Decode(&value) != nil {
		r.fail()
		return nil
	}
	r.rest = r.rest[d.InputOffset():]
	return value
}

func (r *jsonReader) into(target any) {
	if value := r.raw(); r.err == nil && json.Unmarshal(value, target) != nil {
		r.fail()
	}
}

func (r *jsonReader) skip() { _ = r.raw() }
