package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// nothing is a record in which nothing changes.
type nothing struct{ Reader }

func (nothing) Changes(context.Context, []job.Watched, []string) (job.Changed, error) {
	return job.Changed{}, nil
}

func TestATenantHasABoundedNumberOfStreams(t *testing.T) {
	w := newWatches(nothing{}, func(job.Job) event { return event{} })
	var all []*watcher
	for i := range maxWatchers {
		who, err := w.join(caller{tenant: "acme"}, fmt.Sprint("j", i%7))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, who)
	}
	if _, err := w.join(caller{tenant: "acme"}, "j"); problemOf(err).Status != 429 || problemOf(err).RetryAfter == 0 {
		t.Errorf("one more = %v", err)
	}
	other, err := w.join(caller{tenant: "other"}, "j")
	if err != nil {
		t.Errorf("another tenant: %v", err)
	}
	w.leave(other)
	w.leave(all[0])
	again, err := w.join(caller{tenant: "acme"}, "j")
	if err != nil {
		t.Errorf("after one has left: %v", err)
	}
	w.leave(again)
	for _, who := range all[1:] {
		w.leave(who)
	}
	if len(w.jobs) != 0 || len(w.streams) != 0 {
		t.Errorf("%d jobs and %d tenants are left", len(w.jobs), len(w.streams))
	}
}

func TestAddressesAndKeysAreRememberedInBoundedMemory(t *testing.T) {
	g := newGuesses()
	for i := range 3 * maxGuessers {
		g.wrong(addressOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)), "x")
		g.right(fmt.Sprint("key ", i))
	}
	if len(g.from) > maxGuessers || len(g.good) > maxGuessers {
		t.Errorf("%d addresses and %d keys are remembered, bound %d", len(g.from), len(g.good), maxGuessers)
	}
	if g.wait(addressOf("10.9.9.9:1"), "x") != 0 {
		t.Error("an address that nobody has seen must wait")
	}
}
