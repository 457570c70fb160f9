package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxJSON is the longest JSON body that is read.
const maxJSON = 64 << 10

// readJSON decodes a request's body.
func readJSON[T any](r *http.Request) (T, error) {
	var value T
	err := readBody(r, &value)
	return value, err
}

// readBody decodes a small JSON body. What the type does not have is refused, so that a misspelt field is not taken for none.
func readBody(r *http.Request, into any) error {
	raw, err := small(nil, r, maxJSON)
	if err == nil {
		err = decode(raw, into)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	if err != nil {
		return problem(http.StatusBadRequest, "body", "The body is not the JSON document that this operation takes: see /v1/openapi.json.")
	}
	return nil
}

func decode(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err != nil {
		return err
	}
	if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
		return errors.New("text after the document")
	}
	if escapesNUL(raw) {
		return errors.New("a text with a NUL character")
	}
	return nil
}

// storable is text that every record keeps: Postgres knows no NUL, and no text that is not UTF-8.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// escapesNUL reports whether a text of a JSON document has a NUL, which can only be written with a backslash.
func escapesNUL(raw []byte) bool {
	for i := 0; i+5 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if string(raw[i+1:i+6]) == "u0000" {
			return true
		}
		i++ // what is escaped begins no escape
	}
	return false
}

func writeJSON(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that hung up gets no answer
	return nil
}
