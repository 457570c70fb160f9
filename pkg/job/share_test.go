package job

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestFreePlacesGoByWeightAndThenByTurn(t *testing.T) {
	a := &load{tenant: "a", underWay: 8, waiting: 1000, weight: 1, enteredAt: 1}
	b := &load{tenant: "b", underWay: 0, waiting: 3, weight: 1, enteredAt: 9}
	c := &load{tenant: "c", underWay: 6, waiting: 1000, weight: 3, enteredAt: 5}
	got := share([]*load{a, b, c}, 10)
	// b up to its three, c up to three times of b and then of a, whose turn is the next but one.
	if want := map[string]int64{"b": 3, "c": 7}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

func TestAWindowBoundsAShareAndIsAsWideAsTheWeight(t *testing.T) {
	a := &load{tenant: "a", underWay: 3, waiting: 100, weight: 1, window: 5}
	b := &load{tenant: "b", underWay: 0, waiting: 100, weight: 2, window: 5}
	if got := share([]*load{a, b}, 100); got["a"] != 2 || got["b"] != 10 {
		t.Fatalf("%v, want 2 and 10", got)
	}
}

// Whatever comes and ends, a tenant with nothing under way has its turn before any other has two.
func TestNobodysTurnFailsToCome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tenants := make([]*load, rapid.IntRange(2, 8).Draw(rt, "tenants"))
		for i := range tenants {
			tenants[i] = &load{tenant: fmt.Sprint(i), waiting: 1 << 20, weight: rapid.Int64Range(1, 5).Draw(rt, "weight")}
		}
		limit := rapid.Int64Range(1, 12).Draw(rt, "limit")
		passed := map[string]int{} // turns of others since a tenant had one or had something under way
		for clock := int64(1); clock < 200; clock++ {
			var all int64
			for _, l := range tenants {
				all += l.underWay
			}
			copies := make([]*load, len(tenants))
			for i, l := range tenants {
				c := *l
				copies[i] = &c
			}
			turns := share(copies, limit-all)
			for _, l := range tenants {
				if n := turns[l.tenant]; n > 0 {
					l.underWay, l.enteredAt = l.underWay+n, clock
				}
			}
			for _, l := range tenants {
				if passed[l.tenant]++; l.underWay > 0 {
					passed[l.tenant] = 0
				}
				if passed[l.tenant] > 2*len(tenants) {
					rt.Fatalf("tenant %s has waited for %d rounds", l.tenant, passed[l.tenant])
				}
			}
			// One of those under way ends.
			var busy []*load
			for _, l := range tenants {
				if l.underWay > 0 {
					busy = append(busy, l)
				}
			}
			busy[rapid.IntRange(0, len(busy)-1).Draw(rt, "ends")].underWay--
		}
	})
}
