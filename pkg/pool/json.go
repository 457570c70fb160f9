package pool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// JSON makes a Handler of one that takes the decoded body. A body that does not decode is quarantined with the reason "undecodable",
// at once and without an attempt.
func JSON[T any](handle func(ctx context.Context, m Message, body T) error) Handler {
	return func(ctx context.Context, m Message) error {
		var body T
		if err := json.Unmarshal([]byte(m.Body), &body); err != nil {
			return outcome.Quarantine(outcome.ReasonUndecodable, fmt.Errorf("decode body: %T", err)) // its text quotes the body
		}
		return handle(ctx, m, body)
	}
}
