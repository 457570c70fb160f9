package admin_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// clip is the stage that the tests spoil; its queue is a standard one.
var clip = pipeline[0].WithDefaults()

// watched is a fleet that is looked at every so often in a bubble.
type watched struct {
	*record
	admin  *admin.Admin
	client *sqs.Client
	rings  map[string][]string // as last told
	told   int
	failed error
	end    func()
}

// well is a record in which every stage has a worker that finishes work.
func well() *record {
	return &record{workers: []job.WorkerStatus{
		{ID: "c", Stage: "clip", Slots: 1, Breaker: "closed", StartedAt: time.Now(), Signals: map[string]float64{}},
		{ID: "i", Stage: "ingest", Slots: 1, Breaker: "closed", StartedAt: time.Now(), Signals: map[string]float64{}},
	}}
}

func watchFleet(t *testing.T, every time.Duration) *watched {
	t.Helper()
	w := &watched{record: well(), rings: map[string][]string{}}
	w.admin, w.client = setup(t, w.record)
	ctx, cancel := contextOf(t)
	done := make(chan error, 1)
	changed := func(of string, ring []string) { w.rings[of], w.told = ring, w.told+1 }
	go func() { done <- w.admin.Watch(ctx, every, changed, func(err error) { w.failed = err }) }()
	w.end = func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a watch that is ended returns %v", err)
		}
	}
	synctest.Wait()
	return w
}

// change changes the record between two looks.
func (w *watched) change(f func()) {
	w.Lock()
	defer w.Unlock()
	f()
}

// spoil makes a signal reach any threshold.
func (w *watched) spoil(t *testing.T, s stage.Signal) { w.change(func() { spoil[s](t, w) }) }

// pass lets time pass until shortly after the looks that are due in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// signal changes what the worker of clip says of itself.
func (w *watched) signal(s stage.Signal, value float64) {
	signals := maps.Clone(w.workers[0].Signals)
	signals[string(s)] = value
	w.workers = slices.Clone(w.workers)
	w.workers[0].Signals = signals
}

// spoil makes a signal of stage clip, or of the server, reach any threshold. It is called before every look.
var spoil = map[stage.Signal]func(*testing.T, *watched){
	stage.SignalDLQ:    func(t *testing.T, w *watched) { once(t, w, "stagefleet-test-clip-dlq", 1) },
	stage.SignalDLQAge: func(_ *testing.T, w *watched) { w.dead = map[string]time.Duration{"clip": 1000 * time.Hour} },
	stage.SignalWaiting: func(t *testing.T, w *watched) {
		w.signal(stage.SignalFinished, float64(time.Now().Unix()))
		once(t, w, "stagefleet-test-clip", 101)
	},
	stage.SignalAge:     func(_ *testing.T, w *watched) { w.oldest = map[string]time.Duration{"clip": 24 * time.Hour} },
	stage.SignalStalled: func(t *testing.T, w *watched) { once(t, w, "stagefleet-test-clip", 1) },
	stage.SignalMissing: func(_ *testing.T, w *watched) {
		w.workers = slices.DeleteFunc(slices.Clone(w.workers), func(s job.WorkerStatus) bool { return s.Stage == "clip" })
	},
	stage.SignalOutbox:  func(_ *testing.T, w *watched) { w.lag = time.Hour },
	stage.SignalBreaker: func(_ *testing.T, w *watched) { w.signal(stage.SignalBreaker, 2) },
	stage.SignalStuck:   func(_ *testing.T, w *watched) { w.signal(stage.SignalStuck, 1) },
	stage.SignalLost:    more(stage.SignalLost),
	stage.SignalRefused: more(stage.SignalRefused), stage.SignalQuarantine: more(stage.SignalQuarantine),
}

// more counts one more.
func more(s stage.Signal) func(*testing.T, *watched) {
	return func(_ *testing.T, w *watched) { w.signal(s, w.workers[0].Signals[string(s)]+1) }
}

func once(t *testing.T, w *watched, queue string, n int) {
	if visible, _, _, err := w.admin.Count(t.Context(), queue); err != nil || visible > 0 {
		return
	}
	for range n {
		send(t, w.client, queue, sqs.SendMessageInput{})
	}
}

// TestEveryRuleRingsInTheServerOrSaysWhyNot spoils what each rule is about, for as long as the rule looks back.
func TestEveryRuleRingsInTheServerOrSaysWhyNot(t *testing.T) {
	const every = 30 * time.Second
	try := func(of string, a stage.Alarm) {
		t.Run(of+" "+a.Name, func(t *testing.T) {
			bad := spoil[a.Signal]
			if why := a.Not[stage.Local]; why != "" || bad == nil {
				if bad != nil || why == "" {
					t.Errorf("the rule says %q why the server does not evaluate it; a way to spoil its signal is known: %v", why, bad != nil)
				}
				return
			}
			synctest.Test(t, func(t *testing.T) {
				w := watchFleet(t, every)
				defer w.end()
				pass(a.Window())
				if len(w.rings[of]) > 0 {
					t.Errorf("rings when all is well: %v", w.rings)
				}
				for spent := time.Duration(0); spent < a.Window()+a.Period; spent += every {
					w.spoil(t, a.Signal)
					pass(every)
				}
				if !slices.Contains(w.rings[of], a.Name) || w.failed != nil {
					t.Errorf("rings: %v, %v", w.rings, w.failed)
				}
			})
		})
	}
	for _, a := range append(clip.Alarms(), clip.Paused()) {
		try("clip", a)
	}
	for _, a := range stage.ServerAlarms() {
		try("server", a)
	}
}

// TestEveryCompositeRingsInTheServerOrSaysWhyNot spoils each term of each composite.
func TestEveryCompositeRingsInTheServerOrSaysWhyNot(t *testing.T) {
	rules := map[string]stage.Alarm{}
	for _, a := range append(clip.Alarms(), stage.ServerAlarms()...) {
		rules[a.Name] = a
	}
	for of, all := range map[string][]stage.Composite{"clip": {clip.Broken(), clip.Attention()}, "server": {stage.ServerBroken()}} {
		for _, c := range all {
			for _, term := range c.Any {
				if c.Not[stage.Local] != "" || rules[term[0]].Not[stage.Local] != "" {
					continue
				}
				t.Run(c.Name+" "+strings.Join(term, " and "), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := watchFleet(t, time.Minute)
						defer w.end()
						for range 40 {
							for _, name := range term {
								w.spoil(t, rules[name].Signal)
							}
							pass(time.Minute)
						}
						if !slices.Contains(w.rings[of], c.Name) {
							t.Errorf("rings: %v", w.rings)
						}
					})
				})
			}
		}
	}
}

// minutesLate makes the oldest work of clip late in those minutes that are marked, and returns in which the alarm rang.
func minutesLate(t *testing.T, marks string) (rang string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		defer w.end()
		for _, m := range marks {
			age := clip.Profile.Objective - time.Microsecond
			if m == 'x' {
				age = clip.Profile.Objective
			}
			w.change(func() { w.oldest = map[string]time.Duration{"clip": age} })
			pass(time.Minute)
			rang += map[bool]string{true: "!", false: "."}[slices.Contains(w.rings["clip"], stage.AlarmAge)]
		}
	})
	return rang
}

func TestAWindowIsThreeOfTheLastFiveMinutesAndNoneBefore(t *testing.T) {
	for marks, want := range map[string]string{
		"xx...xx...": "..........", // never three within five
		"x.x.x.....": "....!.....", // three within five, until the first is five minutes ago
		"xxx.......": "..!!!.....",
		"x..xx.....": "....!.....",
		"x...xx....": "..........", // the first is too long ago when the third comes
		"xxxxxxxxxx": "..!!!!!!!!",
		"..........": "..........", // a microsecond below the threshold
	} {
		if got := minutesLate(t, marks); got != want {
			t.Errorf("late in %s: rings in %s, want %s", marks, got, want)
		}
	}
}

func TestOfSeveralLooksWithinAMinuteTheWorstCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, 15*time.Second)
		defer w.end()
		for range 3 {
			w.change(func() { w.oldest = map[string]time.Duration{"clip": time.Hour} })
			pass(15 * time.Second)
			w.change(func() { w.oldest = nil })
			pass(45 * time.Second)
		}
		if !slices.Contains(w.rings["clip"], stage.AlarmAge) {
			t.Errorf("rings: %v", w.rings)
		}
	})
}

func TestAPauseHidesWhatItExplainsAndNeverADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		defer w.end()
		w.change(func() { w.pauses = []job.PauseEntry{{Stage: "clip"}} })
		for range 60 { // every alarm of the stage
			for signal := range spoil {
				if signal != stage.SignalMissing {
					w.spoil(t, signal)
				}
			}
			pass(time.Minute)
		}
		if got := w.rings["clip"]; !slices.Equal(got, []string{stage.AlarmDLQ, stage.AlarmDLQAge, stage.AlarmBroken}) {
			t.Errorf("while paused: %v", got)
		}
		w.change(func() { w.pauses = nil })
		pass(2 * time.Minute)
		if got := w.rings["clip"]; !slices.Contains(got, stage.AlarmAge) || !slices.Contains(got, stage.AlarmBreaker) {
			t.Errorf("after it: %v", got)
		}
	})
}

// TestWhatWaitedThroughAPauseIsNoStandstillUntilATimeLimitAfterIt: who ends a pause is not to be paged before work can be finished.
func TestWhatWaitedThroughAPauseIsNoStandstillUntilATimeLimitAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		defer w.end()
		w.change(func() { w.pauses = []job.PauseEntry{{Stage: "clip"}} })
		w.spoil(t, stage.SignalStalled)
		pass(3 * time.Hour)
		w.change(func() { w.pauses = nil })
		pass(clip.Profile.TimeLimit)
		if got := w.rings["clip"]; slices.Contains(got, stage.AlarmStalled) || slices.Contains(got, stage.AlarmBroken) {
			t.Errorf("within the time limit: %v", got)
		}
		w.spoil(t, stage.SignalStalled) // it waits still
		pass(15 * time.Minute)
		if got := w.rings["clip"]; !slices.Contains(got, stage.AlarmStalled) || !slices.Contains(got, stage.AlarmBroken) {
			t.Errorf("after it: %v", got)
		}
	})
}

func TestWhatWorkersCountedBeforeAnybodyLookedRingsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		w.end()
		w.signal(stage.SignalQuarantine, 1000)
		started := w.workers[0].StartedAt
		w.workers[0].StartedAt = started.Add(-time.Hour)
		again, _ := admin.New(pipeline, env, w.client, w.record) // the server starts anew
		ctx, cancel := contextOf(t)
		defer cancel()
		rings := map[string][]string{}
		go func() {
			_ = again.Watch(ctx, time.Minute, func(of string, ring []string) { rings[of] = ring }, func(error) {})
		}()
		pass(3 * time.Minute)
		if len(rings) > 0 {
			t.Errorf("rings: %v", rings)
		}
		w.change(func() { w.signal(stage.SignalQuarantine, 1003) })
		pass(time.Minute)
		if !slices.Equal(rings["clip"], []string{stage.AlarmQuarantine}) {
			t.Errorf("after three more: %v", rings)
		}
		w.change(func() {
			w.workers = append(slices.Clone(w.workers), job.WorkerStatus{ID: "new", Stage: "ingest", StartedAt: time.Now().Add(time.Second),
				Signals: map[string]float64{string(stage.SignalQuarantine): 3}})
		})
		pass(time.Minute)
		if !slices.Equal(rings["ingest"], []string{stage.AlarmQuarantine}) {
			t.Errorf("of a worker that began between two looks: %v", rings)
		}
		cancel()
		synctest.Wait()
	})
}

func TestALookThatFailsLeavesTheAlarmsAndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		defer w.end()
		w.spoil(t, stage.SignalDLQ)
		pass(time.Minute)
		ill := errors.New("ill")
		w.change(func() { w.err = ill })
		pass(time.Minute)
		if !errors.Is(w.failed, ill) || !slices.Contains(w.rings["clip"], stage.AlarmDLQ) {
			t.Errorf("%v, rings: %v", w.failed, w.rings)
		}
		if w.told != 1 {
			t.Errorf("told %d times of one change", w.told)
		}
	})
}

func TestAQueueThatCannotBeCountedLeavesItsAlarmsAndKeepsNoOtherFromRinging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		defer w.end()
		w.spoil(t, stage.SignalDLQ)
		pass(time.Minute)
		remove(t, w.client, pipeline[0].DLQName(env))
		once(t, w, pipeline[1].DLQName(env), 1)
		pass(10 * time.Minute)
		for _, name := range []string{"clip", "ingest"} {
			if !slices.Contains(w.rings[name], stage.AlarmDLQ) {
				t.Errorf("of %s ring %v", name, w.rings[name])
			}
		}
		if w.failed == nil || !strings.Contains(w.failed.Error(), pipeline[0].DLQName(env)) {
			t.Errorf("told %v", w.failed)
		}
	})
}

func TestMetricsAreThoseOfTheLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFleet(t, time.Minute)
		defer w.end()
		w.change(func() { w.dead = map[string]time.Duration{"clip": time.Hour} })
		w.spoil(t, stage.SignalDLQ)
		pass(time.Minute)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(w.admin)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[f.GetName()+labelsOf(m)] = m.GetGauge().GetValue()
			}
		}
		for name, want := range map[string]float64{
			"stagefleet_stage_messages clip dead": 1, "stagefleet_stage_dead_age_seconds clip": 3600, "stagefleet_stage_workers clip": 1,
			"stagefleet_stage_alarms_firing clip": 2, "stagefleet_stage_alarms_firing server": 0,
		} {
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s is %v, want %v: %v", name, value, want, got)
			}
		}
	})
}
