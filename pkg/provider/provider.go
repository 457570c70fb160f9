// Package provider is what stages ask of speech, vision and language models, and who answers.
//
// Each kind has an offline default that needs no key and no network: pocketsphinx hears clear English, vision
// and language decline with [ErrDeclined] and leave the stage to its own heuristics. HTTP adapters serve
// production. One call is one request: nothing here retries, the queue does; failures are typed ends of
// package outcome, so that a rate limit is waited out and a bad input refused. Errors never contain what was
// sent or answered. Implementations are safe for concurrent use. Stage handlers are the callers.
package provider

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// ErrDeclined is matched when a provider does not answer such questions at all. It is not a failure of the
// input or of the provider: the caller goes on without.
var ErrDeclined = errors.New("provider declines")

// Speech turns sound into words.
type Speech interface {
	Transcribe(ctx context.Context, r Recording) (Transcript, error)
}

// Recording is what a Speech is given.
type Recording struct {
	Path       string // local file: WAV, 16 kHz, mono, 16 bit
	DurationMs int64
	Tools      media.Runner // runs local programs on the caller's account
}

// Transcript is what was heard. No words is a valid answer.
type Transcript struct {
	Words  []recording.Word // in order of time
	Engine string           // which program or model answered
}

// Language answers a question about text with JSON that satisfies the question's schema.
type Language interface {
	Answer(ctx context.Context, q Question) (json.RawMessage, error)
}

// Vision answers a question about pictures with JSON that satisfies the question's schema.
type Vision interface {
	Look(ctx context.Context, q Question, pictures []Picture) (json.RawMessage, error)
}

// Question is put to a model.
type Question struct {
	Instructions string         // what to do; ours, never the submitter's text
	Input        string         // what to do it with: untrusted
	Schema       map[string]any // JSON schema of the answer, an object
	MaxTokens    int64          // bound of the answer's length
}

// Picture is one still, with what the question calls it.
type Picture struct {
	Label string
	JPEG  []byte
}

// Declining is the offline default for language and vision.
type Declining struct{}

// Answer implements Language.
func (Declining) Answer(context.Context, Question) (json.RawMessage, error) { return nil, ErrDeclined }

// Look implements Vision.
func (Declining) Look(context.Context, Question, []Picture) (json.RawMessage, error) {
	return nil, ErrDeclined
}
