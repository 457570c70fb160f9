package pool

import (
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// fields identify a message in a log. Neither its body nor the text of an error is ever logged: either may carry data. A handler or
// middleware that knows its texts to be safe can log them itself.
func (p *Pool) fields(h *held) []zap.Field {
	fields := make([]zap.Field, 0, 4+len(h.grant.IDs))
	fields = append(fields, zap.String("operation", "process"), zap.String("pool", p.cfg.Name), zap.String("message", h.msg.ID),
		zap.Int("attempt", h.msg.Attempt), zap.Int("receives", h.msg.Receives))
	for _, k := range slices.Sorted(maps.Keys(h.grant.IDs)) {
		fields = append(fields, zap.String(k, h.grant.IDs[k]))
	}
	return fields
}

func (p *Pool) logEnd(h *held, v outcome.Verdict, took time.Duration) {
	level := zapcore.InfoLevel
	switch v.Kind {
	case outcome.KindRetry, outcome.KindLost:
		level = zapcore.WarnLevel
	case outcome.KindPanic, outcome.KindQuarantine:
		level = zapcore.ErrorLevel
	default:
	}
	entry := p.cfg.Log.Check(level, "handler returned")
	if entry == nil {
		return
	}
	fields := append(p.fields(h), zap.String("end", string(v.Kind)), zap.String("reason", v.Reason), zap.Duration("took", took))
	if v.Err != nil {
		fields = append(fields, errorType(v.Err))
	}
	if panicked, ok := errors.AsType[*outcome.Panic](v.Err); ok {
		fields = append(fields, zap.ByteString("stack", panicked.Stack))
	}
	entry.Write(fields...)
}
