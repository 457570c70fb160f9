package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// ReadJSON decodes an object that an earlier stage wrote into v. One that cannot be decoded is our own
// mistake, so its error quarantines the step.
func (o Objects) ReadJSON(ctx context.Context, obj recording.Object, v any) error {
	in, err := o.Open(ctx, obj)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := json.NewDecoder(in).Decode(v); err != nil {
		return outcome.Quarantine("object_unreadable", fmt.Errorf("decode a JSON object: %w", err))
	}
	return nil
}

// WriteJSON keeps v as a JSON object of the attempt under name.
func (o Objects) WriteJSON(ctx context.Context, name string, v any) (recording.Object, error) {
	return o.Write(ctx, name, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}

// Write keeps what content writes as an object of the attempt under name.
func (o Objects) Write(ctx context.Context, name string, content func(io.Writer) error) (recording.Object, error) {
	out, err := o.Create(ctx, name)
	if err != nil {
		return recording.Object{}, err
	}
	defer func() { _ = out.Abort() }() // nothing to undo after Commit
	if err := content(out); err != nil {
		return recording.Object{}, fmt.Errorf("write an object: %w", err)
	}
	return out.Commit()
}
