package infra

import (
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// stageQuery is where CloudWatch finds a signal of a stage.
func (p plan) stageQuery(s stage.Stage, a stage.Alarm) Map {
	queue, dead := s.QueueName(p.env), s.DLQName(p.env)
	switch a.Signal {
	case stage.SignalDLQ:
		return single("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", queueName(dead), a.Period)
	case stage.SignalDLQAge:
		return single("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", queueName(dead), a.Period)
	case stage.SignalWaiting:
		return single("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", queueName(queue), a.Period)
	case stage.SignalAge:
		// SQS tells the age of what is in flight too, and a long recording is not late because it is worked on.
		return queries(
			ask("waiting", "AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", queueName(queue), a.Period),
			ask("oldest", "AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", queueName(queue), a.Period),
			computed("age", "IF(FILL(waiting, 0) > 0, FILL(oldest, 0), 0)", true))
	case stage.SignalStalled:
		return queries(
			ask("waiting", "AWS/SQS", "ApproximateNumberOfMessagesVisible", "Minimum", queueName(queue), a.Period),
			ask("finished", "AWS/SQS", "NumberOfMessagesDeleted", "Sum", queueName(queue), a.Period),
			ask("paused", stage.Namespace, stage.OwnMetrics[stage.SignalPaused].Name, "Maximum", p.ownDimensions(s.Name), a.Period),
			computed("stalled", "IF(FILL(finished, 0) > 0 OR FILL(paused, 0) > 0, 0, FILL(waiting, 0))", true))
	case stage.SignalMissing:
		return p.missing(s.Name, a.Period)
	default:
		return p.ownQuery(s.Name, a, a.Signal)
	}
}

func queueName(name string) Map { return Map{{"QueueName", name}} }

// missing counts the tasks that a service wants and does not have.
func (p plan) missing(service string, period time.Duration) Map {
	of := Map{{"ClusterName", p.cluster()}, {"ServiceName", service}}
	return queries(
		ask("desired", "ECS/ContainerInsights", "DesiredTaskCount", "Minimum", of, period),
		ask("running", "ECS/ContainerInsights", "RunningTaskCount", "Maximum", of, period),
		computed("missing", "IF(FILL(desired, 0) > FILL(running, 0), FILL(desired, 0) - FILL(running, 0), 0)", true))
}

// ownQuery is a metric that workers or server say themselves. Counters are added over tasks and time; of states the worst
// one counts.
func (p plan) ownQuery(name string, a stage.Alarm, signal stage.Signal) Map {
	own := stage.OwnMetrics[signal]
	stat := "Maximum"
	if own.Counter {
		stat = "Sum"
	}
	return single(stage.Namespace, own.Name, stat, p.ownDimensions(name), a.Period)
}

// ownDimensions are those of what workers and server say themselves.
func (p plan) ownDimensions(name string) Map { return Map{{"Environment", p.env}, {"Stage", name}} }

// single is an alarm's query of one metric.
func single(namespace, name, stat string, dimensions Map, period time.Duration) Map {
	return Map{{"Namespace", namespace}, {"MetricName", name}, {"Dimensions", pairs(dimensions)}, {"Statistic", stat}, {"Period", seconds(period)}}
}

// queries is an alarm's query of several metrics.
func queries(all ...any) Map { return Map{{"Metrics", List(all)}} }

// ask is one metric of several.
func ask(id, namespace, name, stat string, dimensions Map, period time.Duration) Map {
	return Map{{"Id", id}, {"ReturnData", false}, {"MetricStat", Map{
		{"Metric", Map{{"Namespace", namespace}, {"MetricName", name}, {"Dimensions", pairs(dimensions)}}},
		{"Period", seconds(period)}, {"Stat", stat},
	}}}
}
