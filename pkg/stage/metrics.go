package stage

// Own is a metric that workers and server say themselves, for CloudWatch in the embedded
// metric format and for Prometheus under /metrics.
type Own struct {
	// Name is the metric's name in CloudWatch, in the namespace Namespace; empty if it is
	// not said there, because SQS says the same.
	Name string
	// Metric is the Prometheus metric that it is read from; Label and Values restrict it to
	// series with one of these values. Values of several series are added.
	Metric, Label string
	Values        []string
	// StageLabel is the label of a worker's metric that carries the stage's name.
	StageLabel string
	// Counter says that what counts is the growth within a period, not the value.
	Counter bool
	// Server says that the server says it; else workers do.
	Server bool
}

// Namespace is that of the metrics that workers and server say themselves; the dimensions
// are Environment and Stage, "server" for the server.
const Namespace = "Stagefleet"

// OwnMetrics are the metrics behind the signals that workers and server give.
var OwnMetrics = map[Signal]Own{
	SignalBreaker:    {Name: "BreakerNotClosed", Metric: "stagefleet_breaker_state", StageLabel: "breaker"},
	SignalStuck:      {Name: "StuckHandlers", Metric: "stagefleet_pool_stuck", StageLabel: "pool"},
	SignalLost:       {Name: "LeaseLosses", Metric: "stagefleet_pool_ends_total", Label: "end", Values: []string{"lost"}, StageLabel: "pool", Counter: true},
	SignalRefused:    {Name: "ProtectionRefused", Metric: "stagefleet_protection_calls_total", Label: "result", Values: []string{"refused"}, StageLabel: "task", Counter: true},
	SignalQuarantine: {Name: "Quarantines", Metric: "stagefleet_pool_ends_total", Label: "end", Values: []string{"panic", "quarantine"}, StageLabel: "pool", Counter: true},
	SignalPaused:     {Name: "Paused", Metric: "stagefleet_control_paused", StageLabel: "stage"},
	SignalFinished:   {Metric: "stagefleet_pool_settled_total", Label: "action", Values: []string{"delete"}, StageLabel: "pool", Counter: true},
	SignalOutbox:     {Name: "OutboxLag", Metric: "fleet_job_outbox_lag_seconds", Server: true},
	SignalRecord:     {Name: "RecordSilent", Metric: "fleet_record_silent", Server: true},
}
