package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// What is asked of GetMetricData: at most so many metrics in a call (Amazon CloudWatch API Reference), and so far back, which
// is more than CloudWatch needs to show a value.
const (
	metricsPerCall = 500
	metricsSince   = 15 * time.Minute
)

// said are the alarms whose metrics have values all the time while tasks run. Others, such as counts of what went wrong,
// are silent when all is well.
var said = []string{stage.AlarmDepth, stage.AlarmMissing, stage.AlarmPaused, stage.AlarmOutbox, stage.AlarmServer, stage.AlarmRecord}

// heard is a metric that must have been heard of.
type heard struct {
	alarm string
	query types.MetricDataQuery
}

func (l *look) metrics(ctx context.Context) {
	all := l.wantedMetrics()
	now := time.Now()
	for batch := range slices.Chunk(all, metricsPerCall) {
		in := &cloudwatch.GetMetricDataInput{StartTime: aws.Time(now.Add(-metricsSince)), EndTime: &now}
		for _, m := range batch {
			in.MetricDataQueries = append(in.MetricDataQueries, m.query)
		}
		values, err := l.values(ctx, in)
		if err != nil {
			l.unseen(PartMetrics, "all metrics", err)
			continue
		}
		for _, m := range batch {
			l.report.Looked++
			if values[*m.query.Id] > 0 {
				continue
			}
			metric := m.query.MetricStat.Metric
			l.find(Finding{Part: PartMetrics, Resource: *metric.Namespace + " " + *metric.MetricName + " " + dimensionsOf(metric), Field: "values",
				Expected: "some in the last " + metricsSince.String(), Found: "none", Mend: l.mendMetric(metric),
				Why: "alarm " + m.alarm + " takes silence for health, so it cannot ring"})
		}
	}
}

// values counts the values of each metric.
func (l *look) values(ctx context.Context, in *cloudwatch.GetMetricDataInput) (map[string]int, error) {
	counts := map[string]int{}
	for range alarmPages {
		out, err := l.Account.Alarms.GetMetricData(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range out.MetricDataResults {
			counts[aws.ToString(r.Id)] += len(r.Values)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return counts, nil
}

// wantedMetrics are those that the alarms of said read.
func (l *look) wantedMetrics() []heard {
	var all []heard
	known := map[string]bool{}
	add := func(alarm string, m map[string]any) {
		metric := types.Metric{Namespace: ptr(m["Namespace"]), MetricName: ptr(m["MetricName"])}
		for _, d := range listed(m["Dimensions"]) {
			pair := d.(map[string]any)
			metric.Dimensions = append(metric.Dimensions, types.Dimension{Name: ptr(pair["Name"]), Value: ptr(pair["Value"])})
		}
		key := *metric.Namespace + *metric.MetricName + dimensionsOf(&metric)
		if known[key] {
			return
		}
		known[key] = true
		all = append(all, heard{alarm, types.MetricDataQuery{
			Id:         aws.String(fmt.Sprintf("m%d", len(all))),
			MetricStat: &types.MetricStat{Metric: &metric, Period: aws.Int32(60), Stat: aws.String("SampleCount")},
		}})
	}
	for _, w := range l.resources(alarmKinds[0]) {
		name := w.text("AlarmName")
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasSuffix(name, "-"+s) }) {
			continue
		}
		if _, single := w.properties["MetricName"]; single {
			add(name, w.properties)
		}
		for _, q := range listed(w.properties["Metrics"]) {
			if stat, ok := q.(map[string]any)["MetricStat"].(map[string]any); ok {
				add(name, stat["Metric"].(map[string]any))
			}
		}
	}
	return all
}

func ptr(v any) *string { return aws.String(plain(v)) }

func dimensionsOf(m *types.Metric) string {
	var all []string
	for _, d := range m.Dimensions {
		all = append(all, aws.ToString(d.Name)+"="+aws.ToString(d.Value))
	}
	return strings.Join(all, ",")
}
