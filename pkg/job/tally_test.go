package job_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// metered runs a test on both stores with the metrics that they keep.
func metered(t *testing.T, test func(t *testing.T, f *fixture, m *prometheus.Registry)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := prometheus.NewRegistry()
			test(t, newFixture(t, open(t, freshURL(t, kind), job.Options{Registerer: m})), m)
		})
	}
}

// series are a metric's values by their labels, in the order of the labels' names; of a histogram the counts, or with sums the sums.
func series(t *testing.T, m *prometheus.Registry, name string, sums bool) map[string]float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			got[labelsOf(s)] = value(s, sums)
		}
	}
	return got
}

func labelsOf(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetValue())
	}
	return strings.Join(labels, " ")
}

func value(m *dto.Metric, sum bool) float64 {
	switch {
	case m.Histogram == nil:
		return m.GetCounter().GetValue()
	case sum:
		return m.GetHistogram().GetSampleSum()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

func expect(t *testing.T, m *prometheus.Registry, name string, want map[string]float64) {
	t.Helper()
	if got := series(t, m, name, false); !maps.Equal(got, want) {
		t.Errorf("%s = %v, want %v", name, got, want)
	}
}

func TestEndsRetriesAndTimesToAResultAreCountedByStageAndForJobs(t *testing.T) {
	metered(t, func(t *testing.T, f *fixture, m *prometheus.Registry) {
		f.submit(f.submission("talk"))
		message := f.message("ingest")
		f.end(f.claimRow(message, "ingest"), outcome.Fail("flaky", errors.New("x")))
		f.age(time.Minute)
		f.accepted(job.Publication{Claim: f.claimRow(message, "ingest"), Next: next("publish")})
		f.accepted(job.Publication{Claim: f.claim("publish"), Gaps: []outcome.Gap{{Code: "no_audio", Sentence: "None."}}})

		f.submit(f.submission("bad"))
		f.end(f.claim("ingest"), outcome.Reject("no_video", "None."))

		called := f.submit(f.submission("called off"))
		c := f.claim("ingest")
		if err := f.s.Cancel(f.ctx, "acme", called.ID, "test", ""); err != nil {
			t.Fatal(err)
		}
		if f.publish(job.Publication{Claim: c, Next: next("publish")}).Accepted {
			t.Error("a cancelled step was published")
		}

		f.submit(f.submission("poison"))
		f.end(f.claim("ingest"), outcome.Quarantine("unknown", nil))

		expect(t, m, "fleet_job_ended_total", map[string]float64{"completed_with_gaps": 1, "refused": 1, "cancelled": 1, "failed": 1})
		expect(t, m, "fleet_job_result_seconds", map[string]float64{"completed_with_gaps": 1})
		expect(t, m, "fleet_stage_ended_total", map[string]float64{"ingest done": 1, "publish done": 1, "ingest refused": 1, "ingest cancelled": 1, "ingest dead": 1})
		expect(t, m, "fleet_stage_result_seconds", map[string]float64{"ingest": 1, "publish": 1})
		expect(t, m, "fleet_stage_retries_total", map[string]float64{"flaky ingest": 1})
		expect(t, m, "fleet_job_stale_owner_total", map[string]float64{"cancelled ingest": 1})
	})
}

func TestALostOwnerIsARetryAndWhoComesLateIsCountedAsStale(t *testing.T) {
	metered(t, func(t *testing.T, f *fixture, m *prometheus.Registry) {
		f.submit(f.submission("talk"))
		message := f.message("ingest")
		lost := f.claimRow(message, "ingest")
		f.age(time.Hour)
		f.claimRow(message, "ingest")
		if f.publish(job.Publication{Claim: lost, Next: next("publish")}).Accepted {
			t.Error("a lost owner was heard")
		}
		expect(t, m, "fleet_stage_retries_total", map[string]float64{"crashed ingest": 1})
		expect(t, m, "fleet_job_stale_owner_total", map[string]float64{"stale_owner ingest": 1})
		expect(t, m, "fleet_stage_time_seconds", map[string]float64{}) // nobody told of the lost one's time
	})
}

func TestTheTimeOfAnExecutionIsSplitIntoFourParts(t *testing.T) {
	metered(t, func(t *testing.T, f *fixture, m *prometheus.Registry) {
		f.submit(f.submission("talk"))
		f.age(10 * time.Second) // the message is due for so long
		now := time.Now()
		f.accepted(job.Publication{Claim: f.claim("ingest"), Next: next("publish"), Timings: job.Timings{
			ReceivedAt: now.Add(-6 * time.Second), StartedAt: now.Add(-5 * time.Second), EndedAt: now, ProviderWait: 2 * time.Second,
		}})
		for part, want := range map[string]float64{"queue": 9, "slot": 1, "work": 3, "provider": 2} {
			got := series(t, m, "fleet_stage_time_seconds", true)[part+" ingest"]
			if slack := map[bool]float64{true: 5, false: 1e-6}[part == "queue"]; got < want-0.01 || got > want+slack {
				t.Errorf("%s = %v s, want %v", part, got, want)
			}
		}
		if left := math.Abs(series(t, m, "fleet_stage_result_seconds", true)["ingest"]); left > 30 {
			t.Errorf("the step took %v s to its result", left)
		}
	})
}

func TestReasonsOfHandlersDoNotMakeSeriesWithoutEnd(t *testing.T) {
	m := prometheus.NewRegistry()
	f := newFixture(t, open(t, freshURL(t, "sqlite"), job.Options{Registerer: m}))
	f.submit(f.submission("talk"))
	message := f.message("ingest")
	for i := range 80 {
		f.end(f.claimRow(message, "ingest"), outcome.Defer(0, fmt.Sprintf("reason_%d", i)))
		f.pump(nil)
	}
	got := series(t, m, "fleet_stage_retries_total", false)
	if len(got) != 65 || got["other ingest"] != 16 {
		t.Errorf("%d series, %v of others", len(got), got["other ingest"])
	}
}

func TestOpenJobsAreCountedByTheStateThatAPersonSees(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		var ids []string
		for i := range 6 {
			ids = append(ids, f.submit(f.submission(fmt.Sprint("talk ", i))).ID)
		}
		messages := f.queues.take("q-ingest")
		f.claimRow(messages[0], "ingest")
		f.end(f.claimRow(messages[1], "ingest"), outcome.Fail("flaky", errors.New("x")))
		c := f.claimRow(messages[2], "ingest")
		f.end(c, outcome.Await(f.begin(c, "call").ID, time.Now().Add(time.Hour)))
		f.accepted(job.Publication{Claim: f.claimRow(messages[3], "ingest")})
		f.end(f.claimRow(messages[4], "ingest"), outcome.Quarantine("x", nil))
		late := f.submission("late")
		late.First.Window = 1
		ids = append(ids, f.submit(late).ID)
		same := func(want map[job.State]int64) {
			t.Helper()
			got, err := f.s.OpenJobs(f.ctx)
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("open jobs %v, %v, want %v", got, err, want)
			}
			shown := map[job.State]int64{job.Waiting: 0, job.Queued: 0, job.Running: 0, job.Retrying: 0, job.Awaiting: 0, job.Paused: 0}
			for _, id := range ids {
				if state := f.job(id).State; !state.Ended() {
					shown[state]++
				}
			}
			if !maps.Equal(got, shown) {
				t.Errorf("counted %v, shown %v", got, shown)
			}
		}
		same(map[job.State]int64{job.Waiting: 1, job.Queued: 1, job.Running: 1, job.Retrying: 1, job.Awaiting: 1, job.Paused: 0})
		if err := f.s.Pause(f.ctx, job.PauseEntry{Stage: "ingest", Reason: "x", Who: "test"}); err != nil {
			t.Fatal(err)
		}
		same(map[job.State]int64{job.Waiting: 1, job.Queued: 0, job.Running: 1, job.Retrying: 0, job.Awaiting: 1, job.Paused: 2})
	})
}
