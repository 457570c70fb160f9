package provider

import "context"

// Usage is what calls used of a provider's quotas.
type Usage struct {
	Requests     int64 // sent, answered or not
	InputTokens  int64 // all of the input, read from a cache or not; zero where the provider does not count tokens
	OutputTokens int64
}

type meterKey struct{}

// WithMeter returns a context whose calls report what they use. add is called by the goroutine of the call, once when
// a request is sent and once when the provider has said how many tokens it counted.
func WithMeter(ctx context.Context, add func(Usage)) context.Context {
	return context.WithValue(ctx, meterKey{}, add)
}

func spend(ctx context.Context, u Usage) {
	if add, ok := ctx.Value(meterKey{}).(func(Usage)); ok {
		add(u)
	}
}
