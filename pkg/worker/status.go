package worker

import (
	"context"
	"reflect"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	// statusLook is how often the worker looks whether its status has changed.
	statusLook = 2 * time.Second
	// statusEvery is how often it reports a status that has not.
	statusEvery = 15 * time.Second
	// statusBudget bounds one report; the next one is never far.
	statusBudget = 2 * time.Second
)

// report keeps the worker's status in the record until ctx ends; intake ends as
// the drain begins. A report that fails is not worth a retry: it would be out of date.
func (s *service) report(ctx, intake context.Context) {
	started := time.Now()
	look := time.NewTicker(statusLook)
	defer look.Stop()
	var last job.WorkerStatus
	var reported time.Time
	for {
		now, st := time.Now(), s.status(started)
		st.Draining = intake.Err() != nil
		if differs(last, st) || now.Sub(reported) >= statusEvery {
			last, reported = st, now
			s.keep(ctx, st)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-s.changed:
		}
	}
}

func (s *service) keep(ctx context.Context, st job.WorkerStatus) {
	ctx, cancel := context.WithTimeout(ctx, statusBudget)
	defer cancel()
	if err := s.res.Record.ReportWorker(ctx, st); err != nil {
		s.res.Log.Debug("status not kept", zap.Error(err))
	}
}

// differs says whether a person would see the difference; the time of the last
// receive alone changes all the time.
func differs(a, b job.WorkerStatus) bool {
	a.LastReceive, b.LastReceive = time.Time{}, time.Time{}
	return !reflect.DeepEqual(a, b)
}

func (s *service) status(started time.Time) job.WorkerStatus {
	p := s.pool.Status()
	_, paused := s.control.Paused()
	return job.WorkerStatus{
		ID: s.res.ID, Stage: s.res.Settings.Stage.Name, Version: version(), StartedAt: started,
		LastReceive: p.LastReceive, Slots: p.Slots, Busy: p.Running,
		Breaker: string(s.breaker.State()), Protection: string(s.protection.State()), Paused: paused,
		Signals: s.signals(),
	}
}

// signals are what the server's own evaluation of the alarms learns from this worker, by the names of package stage.
func (s *service) signals() map[string]float64 {
	values, err := telemetry.Signals(s.res.Metrics, false)
	if err != nil {
		s.res.Log.Debug("metrics not reported", zap.Error(err))
	}
	signals := make(map[string]float64, len(values))
	for signal, value := range values {
		signals[string(signal)] = value
	}
	return signals
}

// version is that of the module the binary was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
