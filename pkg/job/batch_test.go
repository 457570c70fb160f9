package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// double answers every number with its double, a second later.
func double(_ context.Context, ns []int) ([]int, error) {
	<-time.After(time.Second)
	out := make([]int, len(ns))
	for i, n := range ns {
		out[i] = 2 * n
	}
	return out, nil
}

func TestALoneRequestRunsAtOnceAndThoseThatComeMeanwhileShareTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := &batcher[int, int]{most: 50, leaders: 1, run: func(ctx context.Context, ns []int) ([]int, error) {
			sizes = append(sizes, len(ns))
			return double(ctx, ns)
		}}
		var all sync.WaitGroup
		at := time.Now()
		for i := range 1 + 50 + 1 {
			all.Go(func() {
				if got, err := b.do(t.Context(), i); err != nil || got != 2*i {
					t.Errorf("%d became %d, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if fmt.Sprint(sizes) != "[1 50 1]" || time.Since(at) != 3*time.Second {
			t.Fatalf("batches of %v in %v", sizes, time.Since(at))
		}
		if b.leading != 0 {
			t.Fatalf("%d still lead", b.leading)
		}
	})
}

func TestACallerWhoGoesAwayLeavesItsTurnAndItsResultIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var undone []int
		b := &batcher[int, int]{most: 50, leaders: 1, run: double, orphans: func(ns, _ []int) { undone = append(undone, ns...) }}
		var all sync.WaitGroup
		ask := func(n int, patience time.Duration, want error) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, err := b.do(ctx, n); !errors.Is(err, want) {
					t.Errorf("%d: %v, want %v", n, err, want)
				}
			})
			synctest.Wait()
		}
		ask(1, time.Hour, nil)
		ask(2, 500*time.Millisecond, context.DeadlineExceeded)  // before any batch has it
		ask(3, time.Hour, nil)                                  // leads the second batch
		ask(4, 1500*time.Millisecond, context.DeadlineExceeded) // while the second batch runs
		ask(5, time.Hour, nil)
		all.Wait()
		if fmt.Sprint(undone) != "[4]" || b.leading != 0 {
			t.Fatalf("undone %v, %d still lead", undone, b.leading)
		}
	})
}

func TestNobodyWaitsUntilTheResultsOfThoseWhoHaveGoneAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batcher[int, int]{most: 50, leaders: 1, run: double, orphans: func(ns, _ []int) { <-time.After(time.Hour) }}
		var all sync.WaitGroup
		start := time.Now()
		ask := func(patience, want time.Duration) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, _ = b.do(ctx, 1)
				if took := time.Since(start); took != want {
					t.Errorf("answered after %v, want %v", took, want)
				}
			})
			synctest.Wait()
		}
		ask(time.Hour, time.Second)
		ask(2*time.Hour, time.Hour+2*time.Second) // leads the second batch
		ask(1500*time.Millisecond, 1500*time.Millisecond)
		ask(time.Hour, 2*time.Second)
		all.Wait()
	})
}

func TestAFaultOfOneIsNotTheOthersUnlessTheOutcomeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		for _, fault := range []error{boom, fmt.Errorf("commit: %w", sqldb.ErrUnknown)} {
			runs := map[int]int{}
			b := &batcher[int, int]{most: 50, leaders: 1, run: func(ctx context.Context, ns []int) ([]int, error) {
				for _, n := range ns {
					runs[n]++
				}
				got, _ := double(ctx, ns)
				for _, n := range ns {
					if n == 3 {
						return nil, fault
					}
				}
				return got, nil
			}}
			errs := make([]error, 5)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { _, errs[i] = b.do(t.Context(), i) })
				synctest.Wait()
			}
			all.Wait()
			unknown := errors.Is(fault, sqldb.ErrUnknown)
			for i, err := range errs {
				mustFail := i == 3 || unknown && i > 0
				if (err != nil) != mustFail || unknown && runs[i] != 1 {
					t.Errorf("%v: request %d ran %d times and got %v", fault, i, runs[i], err)
				}
			}
		}
	})
}
