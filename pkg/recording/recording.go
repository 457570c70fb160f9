// Package recording holds the values that cross from one stage to the next, as versioned JSON.
//
// It promises that a shape once released stays readable: fields are added, never renamed or given a new
// meaning, and testdata keeps a fixture of every released shape. Large data (words, turns, captions, video)
// travels as an [Object], a reference; hops carry references and small facts only. All times are whole
// milliseconds from the start of the recording unless a field says otherwise. Values are plain data: copying
// one is safe, sharing one between goroutines that write is not. Stage handlers are the callers.
package recording

import (
	"errors"
	"fmt"
)

// Version is the shape version that this build writes, and the only one it reads.
const Version = 1

// ErrVersion is matched by the error of a Validate that met a shape version other than [Version]: the value
// was written by a newer build, or is not one of ours.
var ErrVersion = errors.New("unknown shape version")

// FieldError says which field cannot be relied on, and which bound it breaks. It never contains the value of
// a text field, so it may be logged.
type FieldError struct {
	Field string // JSON path, for example "media.audio.sha256"
	Bound string // what would have been right
}

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("field %s must be %s", e.Field, e.Bound) }

// Object refers to bytes in the object store. The zero value refers to nothing.
type Object struct {
	Key    string `json:"key"`    // path in the store, slash separated
	SHA256 string `json:"sha256"` // 64 lower-case hexadecimal digits
	Type   string `json:"type"`   // media type, for example "video/mp4"
	Bytes  int64  `json:"bytes"`
}

// Span is a stretch of time; the end is not part of it.
type Span struct {
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs"`
}

// Source is what was submitted: the input of ingest.
type Source struct {
	V      int    `json:"v"`
	Object Object `json:"object"`
	Name   string `json:"name"` // the submitter's own file name: data to show, never a path, never logged
}
