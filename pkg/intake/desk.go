package intake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// desk gives tenants their turns. Only run touches its places.
type desk struct {
	Intake
	tenants       map[string]*place
	ended         chan *place   // turns that have come to their end
	reads, copies chan struct{} // one element for each that goes on
}

// place is a tenant's in the order of turns.
type place struct {
	tenant, id string // of the import that had the last turn
	busy       bool   // has its turn now
	last       time.Time
	next       time.Time // not before, unless it is another import's turn
}

func (d *desk) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	busy := 0
	for {
		busy += d.begin(ctx, sideBySide-busy)
		select {
		case <-ctx.Done():
			for ; busy > 0; busy-- {
				<-d.ended
			}
			return nil
		case p := <-d.ended:
			busy--
			p.busy, p.last = false, time.Now()
		case <-tick.C:
		}
	}
}

// begin gives turns to tenants with an open import, first to who has waited longest, and returns how many.
func (d *desk) begin(ctx context.Context, free int) int {
	if free == 0 || ctx.Err() != nil || !d.Record.Leads(ctx) {
		return 0
	}
	open, err := d.Record.OpenImports(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.Log.Warn("imports not looked at", zap.Error(err))
		}
		return 0
	}
	d.forget(open)
	slices.SortStableFunc(open, func(a, b job.OpenImport) int { return d.place(a).last.Compare(d.place(b).last) })
	begun := 0
	for _, o := range open {
		p := d.place(o)
		if begun == free || p.busy || p.id == o.ID && time.Now().Before(p.next) {
			continue
		}
		begun++
		p.id, p.busy, p.next = o.ID, true, time.Time{}
		go func() {
			p.next = time.Now().Add(d.take(ctx, o))
			d.ended <- p
		}()
	}
	return begun
}

func (d *desk) place(o job.OpenImport) *place {
	p := d.tenants[o.Tenant]
	if p == nil {
		p = &place{tenant: o.Tenant}
		d.tenants[o.Tenant] = p
	}
	return p
}

// forget drops the places of tenants that have no open import.
func (d *desk) forget(open []job.OpenImport) {
	for tenant, p := range d.tenants {
		if !p.busy && !slices.ContainsFunc(open, func(o job.OpenImport) bool { return o.Tenant == tenant }) {
			delete(d.tenants, tenant)
		}
	}
}

// take is one turn of an import. It returns how long the import waits for its next.
func (d *desk) take(ctx context.Context, o job.OpenImport) time.Duration {
	wait, err := d.turn(ctx, o)
	if err == nil || ctx.Err() != nil || errors.Is(err, job.ErrEnded) {
		return wait
	}
	d.Log.Warn("import interrupted; it goes on", zap.String("import", o.ID), zap.Error(err))
	_ = d.Record.ImportWaits(ctx, o.ID, fault) // the log has said it already
	return cmp.Or(wait, waitFor)
}

// turn reads the sheet, or turns some of its rows into jobs, and returns how long the import waits for its next turn.
func (d *desk) turn(ctx context.Context, o job.OpenImport) (time.Duration, error) {
	if o.State == job.ImportPending {
		return d.read(ctx, o)
	}
	rows, next, err := d.Record.PendingRows(ctx, o.ID, jobBatch)
	switch {
	case err != nil:
		return waitFor, err
	case len(rows) > 0:
		return d.admit(ctx, o, rows)
	case next > 0:
		return min(next, waitFor), d.Record.ImportWaits(ctx, o.ID, sources)
	}
	ended, err := d.Record.EndImport(ctx, o.ID)
	if !ended {
		return waitFor, err
	}
	return 0, err
}

// waitSentences say what stands in the way. Rows wait for all of them, also for money: whoever will not wait cancels the import.
var waitSentences = map[string]string{
	job.RefusedInFlight: "The account has as many jobs in flight as it may; the import goes on as they end.",
	job.RefusedDailyCap: "The account has spent its daily allowance; the import goes on tomorrow (UTC).",
	job.RefusedBalance:  "The account's balance does not cover the next row; the import goes on when there is more.",
	job.RefusedCapacity: "The fleet has more work than it accepts; the import goes on later.",
}

// What the submitter reads of what the log knows.
var (
	fault   = job.Reason{Code: "fault", Sentence: "The fleet could not go on with the import and tries again; its log says why."}
	sources = job.Reason{Code: "source_fault", Sentence: "The sources of the rows that are left could not be read just now; they are tried again, less and less often for a day."}
)
