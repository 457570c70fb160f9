package provider

import (
	"context"
	"time"
)

// Kinds of providers.
const (
	KindSpeech   = "speech"
	KindVision   = "vision"
	KindLanguage = "language"
)

type timerKey struct{}

// WithTimer returns a context whose calls tell how long they took, from the request to its answer or failure, and by which kind of
// provider. Calls that decline without asking anybody tell nothing. tell is called by the goroutine of the call.
func WithTimer(ctx context.Context, tell func(kind string, took time.Duration, err error)) context.Context {
	return context.WithValue(ctx, timerKey{}, tell)
}

// timed ends the time of a call; defer it where the call begins.
func timed(ctx context.Context, kind string, start time.Time, err *error) {
	if tell, ok := ctx.Value(timerKey{}).(func(string, time.Duration, error)); ok {
		tell(kind, time.Since(start), *err)
	}
}
