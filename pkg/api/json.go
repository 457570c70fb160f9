package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxJSON is the longest JSON body that is read.
const maxJSON = 64 << 10

// readJSON decodes a request's body.
func readJSON[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var value T
	r.Body = &unstalled{r.Body, http.NewResponseController(w)}
	err := readBody(r, &value)
	return value, err
}

// readBody decodes a small JSON body. What the type does not have is refused, so that a misspelt field is not taken for none.
func readBody(r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxJSON))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text after the document")
		}
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	if err != nil {
		return problem(http.StatusBadRequest, "body", "The body is not the JSON document that this operation takes: see /v1/openapi.json.")
	}
	return nil
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
