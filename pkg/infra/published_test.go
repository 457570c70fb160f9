package infra_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/protect"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

// metricOf names one metric with all of its dimensions, as CloudWatch tells them apart.
func metricOf(namespace, name string, dimensions map[string]string) string {
	text := namespace + " " + name
	for _, d := range slices.Sorted(maps.Keys(dimensions)) {
		text += " " + d + "=" + dimensions[d]
	}
	return text
}

// said are the metrics that a process publishes: of the line that its parts, as they are, make the emitter write.
func said(t *testing.T, registry prometheus.Gatherer, name string, server bool) []string {
	t.Helper()
	var out bytes.Buffer
	e := telemetry.Emitter{Out: &out, Gatherer: registry, Env: env, Stage: name, Server: server, Failed: func(err error) { t.Error(err) }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Run(ctx)
	line, _, _ := strings.Cut(out.String(), "\n")
	var fields map[string]any
	var about struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	for _, into := range []any{&fields, &about} {
		if err := json.Unmarshal([]byte(line), into); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
	}
	var all []string
	for _, group := range about.AWS.CloudWatchMetrics {
		for _, m := range group.Metrics {
			for _, names := range group.Dimensions {
				dimensions := map[string]string{}
				for _, d := range names {
					dimensions[d] = fmt.Sprint(fields[d])
				}
				all = append(all, metricOf(group.Namespace, m.Name, dimensions))
			}
		}
	}
	return all
}

// counting has the parts of a stage's worker that count something.
func counting(t *testing.T, name string) prometheus.Gatherer {
	t.Helper()
	r := prometheus.NewRegistry()
	_, err := breaker.New(breaker.Config{Name: name, Metrics: r})
	if err == nil {
		_, err = protect.New(protect.Config{Name: name, Longest: time.Hour, Metrics: r})
	}
	if err == nil {
		_, err = control.New(control.Config{Stage: name, Record: noPauses{}, Wait: time.Second, Metrics: r})
	}
	if err == nil {
		_, err = pool.New(sqs.New(sqs.Options{}), pool.Config{QueueURL: "http://q/" + name, Handler: func(context.Context, pool.Message) error { return nil }, Metrics: r})
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// published are all metrics that somebody publishes: our processes, SQS for queues and ECS for services that the templates make.
func published(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	services := []string{"server"}
	for _, s := range workers.Stages {
		services = append(services, s.Name)
		for _, m := range said(t, counting(t, s.Name), s.Name, false) {
			all[m] = true
		}
	}
	r := prometheus.NewRegistry()
	for _, signal := range []stage.Signal{stage.SignalOutbox, stage.SignalRecord} { // TestEveryMetricOfTheRules... holds the names
		r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: stage.OwnMetrics[signal].Metric}))
	}
	for _, m := range said(t, r, "server", true) {
		all[m] = true
	}
	for _, res := range template(t, "queues").Resources {
		queue, ok := res.Properties.Get("QueueName").(string)
		metrics := []string{"ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed", "ApproximateAgeOfOldestMessage", "NumberOfMessagesDeleted"}
		if strings.HasSuffix(queue, ".fifo") {
			metrics = append(metrics, "ApproximateNumberOfGroupsWithInflightMessages")
		}
		for _, name := range metrics {
			all[metricOf("AWS/SQS", name, map[string]string{"QueueName": queue})] = ok
		}
	}
	for _, service := range services {
		for _, name := range []string{"RunningTaskCount", "DesiredTaskCount"} {
			all[metricOf("ECS/ContainerInsights", name, map[string]string{"ClusterName": "stagefleet-" + env, "ServiceName": service})] = true
		}
	}
	return all
}

// read finds every metric that a resource reads, in whatever depth, with the place.
func read(value any, found func(string)) {
	switch v := value.(type) {
	case infra.List:
		for _, item := range v {
			read(item, found)
		}
	case infra.Map:
		if name, ok := v.Get("MetricName").(string); ok {
			dimensions := map[string]string{}
			list, _ := v.Get("Dimensions").(infra.List)
			for _, d := range list {
				pair, _ := d.(infra.Map)
				dimensions[fmt.Sprint(pair.Get("Name"))] = fmt.Sprint(pair.Get("Value"))
			}
			found(metricOf(fmt.Sprint(v.Get("Namespace")), name, dimensions))
		}
		for _, p := range v {
			read(p.Value, found)
		}
	}
}

// drawn are the metrics of the dashboard.
func drawn(t *testing.T) []string {
	t.Helper()
	board, _ := template(t, "shared").Resource("Dashboard")
	var body struct {
		Widgets []struct{ Properties struct{ Metrics [][]string } }
	}
	if err := json.Unmarshal([]byte(board.Properties.Get("DashboardBody").(infra.Sub)), &body); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range body.Widgets {
		for _, m := range w.Properties.Metrics {
			dimensions := map[string]string{}
			for i := 2; i+1 < len(m); i += 2 {
				dimensions[m[i]] = m[i+1]
			}
			all = append(all, metricOf(m[0], m[1], dimensions))
		}
	}
	return all
}

// TestWhatAlarmsScalingAndDashboardReadSomebodyPublishesWithTheseDimensions: CloudWatch takes any name, and shows nothing for it.
func TestWhatAlarmsScalingAndDashboardReadSomebodyPublishesWithTheseDimensions(t *testing.T) {
	all := published(t)
	n := 0
	for _, tmpl := range templates(t) {
		for _, r := range tmpl.Resources {
			read(r.Properties, func(metric string) {
				n++
				if !all[metric] {
					t.Errorf("%s/%s reads %s, which nobody publishes", tmpl.Name, r.ID, metric)
				}
			})
		}
	}
	if n < 100 {
		t.Errorf("only %d readings were found", n)
	}
	for _, metric := range drawn(t) {
		if !all[metric] {
			t.Errorf("the dashboard draws %s, which nobody publishes", metric)
		}
	}
}

// TestTheSumOfAlarmsCountsEveryMetricThatTheyRead, as CloudWatch bills them: each metric of an alarm, and each composite.
func TestTheSumOfAlarmsCountsEveryMetricThatTheyRead(t *testing.T) {
	metrics, composites := 0, 0
	for _, tmpl := range templates(t) {
		for _, r := range tmpl.Resources {
			switch r.Type {
			case "AWS::CloudWatch::Alarm":
				read(r.Properties, func(string) { metrics++ })
			case "AWS::CloudWatch::CompositeAlarm":
				composites++
			}
		}
	}
	want := fmt.Sprintf("| alarms | %.2f |", 0.10*float64(metrics)+0.50*float64(composites))
	for _, f := range generate(t) {
		if f.Name == "README.md" && !strings.Contains(string(f.Text), want) {
			t.Errorf("the README does not say %q", want)
		}
	}
}

// TestEveryMetricThatOurProcessesPublishIsOnTheDashboard: what is said to CloudWatch is paid for.
func TestEveryMetricThatOurProcessesPublishIsOnTheDashboard(t *testing.T) {
	board := drawn(t)
	for metric := range published(t) {
		if strings.HasPrefix(metric, stage.Namespace+" ") && !slices.Contains(board, metric) {
			t.Errorf("%s is not drawn", metric)
		}
	}
}
