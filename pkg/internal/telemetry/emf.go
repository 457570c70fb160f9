package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Emitter says the metrics behind alarms to CloudWatch, as lines of the log in its embedded metric format (Amazon CloudWatch
// User Guide, "Embedded metric format specification"). Which ones is package stage's to say; dimensions are environment and
// stage, nothing else.
type Emitter struct {
	Out      io.Writer
	Gatherer prometheus.Gatherer
	Env      string
	Stage    string // "server" for the server
	Server   bool   // say the server's metrics, not a worker's
	Failed   func(error)

	last map[string]float64 // of counters
}

// EmitEvery is the period of the alarms' shortest rules.
const EmitEvery = time.Minute

// Run writes one line at once, one every period, and a last one when ctx ends, so that what was counted is not lost.
func (e *Emitter) Run(ctx context.Context) {
	tick := time.NewTicker(EmitEvery)
	defer tick.Stop()
	for {
		if err := e.emit(time.Now()); err != nil {
			e.Failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err := e.emit(time.Now()); err != nil {
				e.Failed(err)
			}
			return
		}
	}
}

// directive is the part of a line that makes it metrics.
type directive struct {
	Timestamp         int64       `json:"Timestamp"`
	CloudWatchMetrics []namespace `json:"CloudWatchMetrics"`
}

type namespace struct {
	Namespace  string     `json:"Namespace"`
	Dimensions [][]string `json:"Dimensions"`
	Metrics    []named    `json:"Metrics"`
}

type named struct {
	Name string `json:"Name"`
}

func (e *Emitter) emit(now time.Time) error {
	values, err := Signals(e.Gatherer, e.Server)
	if err != nil {
		return err
	}
	fields := map[string]any{"Environment": e.Env, "Stage": e.Stage}
	var names []named
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		own := stage.OwnMetrics[signal]
		if own.Name == "" {
			continue
		}
		fields[own.Name] = e.said(own, values[signal])
		names = append(names, named{own.Name})
	}
	if len(names) == 0 {
		return nil
	}
	fields["_aws"] = directive{now.UnixMilli(), []namespace{{stage.Namespace, [][]string{{"Environment", "Stage"}}, names}}}
	line, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode metrics: %w", err)
	}
	_, err = e.Out.Write(append(line, '\n'))
	return err
}

// said is what a line says: of a counter by how much it has grown since it was said last.
func (e *Emitter) said(own stage.Own, value float64) float64 {
	if !own.Counter {
		return value
	}
	if e.last == nil {
		e.last = map[string]float64{}
	}
	grown := value - e.last[own.Name]
	e.last[own.Name] = value
	return grown
}

// Signals returns the values of the metrics behind alarms that the server, or else a worker, says itself: of each the sum of
// the series that count. A signal that has no value is absent.
func Signals(from prometheus.Gatherer, server bool) (map[stage.Signal]float64, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	values := map[stage.Signal]float64{}
	for signal, own := range stage.OwnMetrics {
		if own.Server != server {
			continue
		}
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == own.Metric })
		switch {
		case i >= 0:
			if sum := sumOf(own, families[i].GetMetric()); !math.IsNaN(sum) {
				values[signal] = sum
			}
		case own.Counter:
			values[signal] = 0 // a counter of which nothing was counted yet has no series
		}
	}
	return values, nil
}

func sumOf(own stage.Own, series []*dto.Metric) float64 {
	sum := 0.0
	for _, m := range series {
		if counts(own, m) {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}

func counts(own stage.Own, m *dto.Metric) bool {
	if own.Label == "" {
		return true
	}
	for _, l := range m.GetLabel() {
		if l.GetName() == own.Label {
			return slices.Contains(own.Values, l.GetValue())
		}
	}
	return false
}
