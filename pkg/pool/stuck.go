package pool

import (
	"bytes"
	"runtime"
	"time"

	"go.uber.org/zap"
)

// maxDump bounds the goroutine dump of a stuck handler.
const maxDump = 1 << 20

// isStuck tells whether the handler ignored the end of its context for too long. It runs under mu.
func (p *Pool) isStuck(h *held, now time.Time) bool {
	return h.running && !h.endedAt.IsZero() && now.Sub(h.endedAt) >= p.cfg.StuckAfter
}

// giveUp lets go of a message whose handler does not return: it is renewed no longer, so that another worker may have it, and its
// slot goes to another message. It runs under mu.
func (p *Pool) giveUp(h *held) {
	h.stuck = true
	p.stuck++
	p.drop(h)
	h.passOn()
	if p.stuck <= p.cfg.MaxStuck && !h.replaced {
		h.replaced = true
		p.in.free++
	}
	p.wakeIntake() // for a slot, or for another reason to have none
}

// reportStuck tells of it, and pays the gates and the protector: whatever they wait for will not come of this message, and what its
// handler still does counts for nothing.
func (p *Pool) reportStuck(h *held) {
	p.pay(h)
	p.metrics.stuck.Inc()
	p.cfg.Log.Error("handler does not return after its context ended",
		append(p.fields(h), zap.ByteString("goroutines", handlers()))...)
}

// handlers dumps the goroutines that are inside a handler. A dump names functions and lines, never the data.
func handlers() []byte {
	all := make([]byte, maxDump)
	all = all[:runtime.Stack(all, true)]
	var in [][]byte
	for g := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.Contains(g, []byte(".(*Pool).execute(")) {
			in = append(in, g)
		}
	}
	return bytes.Join(in, []byte("\n\n"))
}
