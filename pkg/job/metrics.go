package job

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the record, by stage and for whole jobs. They are counted in the process whose transaction has decided, once it is
// committed, and never by tenant. Labels are stages, states and reasons of a bounded vocabulary.
type metrics struct {
	stale      *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	admissions *prometheus.CounterVec
	repairs    prometheus.Counter
	faults     prometheus.Counter
	drifts     prometheus.Counter

	jobsEnded, stepsEnded, retries     *prometheus.CounterVec
	jobSeconds, stepSeconds, timeSpent *prometheus.HistogramVec

	reasons words
}

func newMetrics() *metrics {
	counters := func(name, help string, by ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, by)
	}
	seconds := func(name, help string, buckets []float64, by ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, by)
	}
	long := prometheus.ExponentialBuckets(1, 3, 11) // to 16 hours
	return &metrics{
		stale:      counters("fleet_job_stale_owner_total", "Publications and endings of executions that no longer owned their step.", "stage", "reason"),
		refusals:   counters("fleet_job_claims_refused_total", "Messages whose step might not be run.", "reason"),
		admissions: counters("fleet_job_submissions_total", "Submissions, by the reason of their refusal or admitted.", "reason"),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_job_repairs_total", Help: "Steps that the reconciler has given a new message.",
		}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_job_reconcile_faults_total", Help: "Rounds of the reconciler that met an error.",
		}),
		drifts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_job_accounts_mended_total", Help: "Accounts whose counts were not those of their jobs and were mended.",
		}),
		jobsEnded:  counters("fleet_job_ended_total", "Jobs that have ended, by state.", "state"),
		jobSeconds: seconds("fleet_job_result_seconds", "From the acceptance of a job to its result.", long, "state"),
		stepsEnded: counters("fleet_stage_ended_total", "Steps that have ended, by state: done, refused, dead, cancelled, superseded.", "stage", "state"),
		stepSeconds: seconds("fleet_stage_result_seconds", "From the moment a stage is given a step to its result, waits and retries included.",
			long, "stage"),
		retries: counters("fleet_stage_retries_total", "Executions after which their step is tried again, by reason.", "stage", "reason"),
		timeSpent: seconds("fleet_stage_time_seconds",
			"What the time of executions was spent on: queue (its message was due and not received), slot (received and not started), work, provider.",
			prometheus.ExponentialBuckets(0.1, 4, 10), "stage", "part"), // to 7 hours
		reasons: words{known: map[string]bool{}},
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		m.stale, m.refusals, m.admissions, m.repairs, m.faults, m.drifts, m.jobsEnded, m.jobSeconds, m.stepsEnded, m.stepSeconds, m.retries, m.timeSpent,
	} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

func (m *metrics) reconciled(err error) {
	if err != nil {
		m.faults.Inc()
	}
}

// words bounds a vocabulary that is not this package's own: a handler's reasons are short codes, and nobody counts them.
type words struct {
	mu    sync.Mutex
	known map[string]bool // guarded by mu
}

const maxWords = 64

// label is the word itself, or "other" when there are too many.
func (w *words) label(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[word] || len(w.known) < maxWords {
		w.known[word] = true
		return word
	}
	return "other"
}
