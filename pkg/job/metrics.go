package job

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the record. Labels are reasons of a bounded vocabulary.
type metrics struct {
	stale      *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	admissions *prometheus.CounterVec
	repairs    prometheus.Counter
	faults     prometheus.Counter
	drifts     prometheus.Counter
}

func newMetrics() *metrics {
	counters := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
	}
	return &metrics{
		stale:      counters("fleet_job_stale_owner_total", "Publications and endings of executions that no longer owned their step."),
		refusals:   counters("fleet_job_claims_refused_total", "Messages whose step might not be run."),
		admissions: counters("fleet_job_submissions_total", "Submissions, by the reason of their refusal or admitted."),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_job_repairs_total", Help: "Steps that the reconciler has given a new message.",
		}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_job_reconcile_faults_total", Help: "Rounds of the reconciler that met an error.",
		}),
		drifts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_job_accounts_mended_total", Help: "Accounts whose counts were not those of their jobs and were mended.",
		}),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	return errors.Join(
		r.Register(m.stale), r.Register(m.refusals), r.Register(m.admissions), r.Register(m.repairs), r.Register(m.faults), r.Register(m.drifts),
	)
}

func (m *metrics) reconciled(err error) {
	if err != nil {
		m.faults.Inc()
	}
}
