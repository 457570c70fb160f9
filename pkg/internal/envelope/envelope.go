// Package envelope is the wire form of a message between stages: a short JSON body of identifiers and
// nothing else, so that no queue, log or dead-letter queue ever holds what a submitter sent. It also makes
// the identifiers. It promises that Decode accepts exactly what some release of Encode wrote; it says
// nothing about whether a step exists. Package job writes bodies, package worker reads them.
package envelope

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Version is the only body version there has been.
const Version = 1

// MaxBody bounds the bodies that Decode reads, in bytes.
const MaxBody = 2048

// maxID bounds one identifier, in bytes; queue attributes and object keys stay well below their limits.
const maxID = 64

// ErrMalformed is matched by every error of Decode. Such a message can never become good by waiting.
var ErrMalformed = errors.New("malformed message body")

// Body says which emission of which step a message stands for.
type Body struct {
	V        int    `json:"v"`
	Step     string `json:"step"`
	Emission int64  `json:"emission"` // starts at 1
	Tenant   string `json:"tenant"`
}

// Encode returns the body of a message. It fails only when b could not be read back.
func Encode(b Body) (string, error) {
	b.V = Version
	if err := b.validate(); err != nil {
		return "", err
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("encode body: %w", err)
	}
	return string(raw), nil
}

// Decode reads a body. Unknown members are ignored, so that a later release may add some; an unknown
// version, a missing identifier and anything longer than MaxBody are refused.
func Decode(s string) (Body, error) {
	if len(s) > MaxBody {
		return Body{}, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, len(s), MaxBody)
	}
	var b Body
	if err := json.Unmarshal([]byte(s), &b); err != nil {
		// The decoder's own text may quote the body, which is not ours to repeat.
		return Body{}, fmt.Errorf("%w: not a JSON object of the expected types", ErrMalformed)
	}
	if err := b.validate(); err != nil {
		return Body{}, err
	}
	return b, nil
}

func (b Body) validate() error {
	switch {
	case b.V != Version:
		return fmt.Errorf("%w: version %d, only %d is known", ErrMalformed, b.V, Version)
	case !ValidID(b.Step):
		return fmt.Errorf("%w: step is not an identifier", ErrMalformed)
	case !ValidID(b.Tenant):
		return fmt.Errorf("%w: tenant is not an identifier", ErrMalformed)
	case b.Emission < 1:
		return fmt.Errorf("%w: emission %d, at least 1", ErrMalformed, b.Emission)
	}
	return nil
}

// ValidID reports whether s may name a step, a job or a tenant: 1 to 64 of a-z, A-Z, 0-9, dot, dash and
// underscore, starting with a letter or digit. All of these are safe in object keys and queue attributes.
func ValidID(s string) bool {
	if s == "" || len(s) > maxID || strings.ContainsAny(s[:1], "._-") {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
