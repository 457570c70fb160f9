package infra

import (
	"encoding/json"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Sizes on the dashboard's grid, which is 24 wide.
const (
	widgetWidth  = 4
	widgetHeight = 5
)

// widget is one graph (Amazon CloudWatch API Reference, "Dashboard Body Structure and Syntax").
type widget struct {
	Type       string     `json:"type"`
	X          int        `json:"x"`
	Y          int        `json:"y"`
	Width      int        `json:"width"`
	Height     int        `json:"height"`
	Properties properties `json:"properties"`
}

type properties struct {
	Title       string       `json:"title"`
	Region      string       `json:"region"`
	Stat        string       `json:"stat"`
	Period      int          `json:"period"`
	Metrics     [][]string   `json:"metrics"`
	Annotations *annotations `json:"annotations,omitempty"`
}

type annotations struct {
	Horizontal []line `json:"horizontal"`
}

type line struct {
	Label string  `json:"label"`
	Value float64 `json:"value"`
}

// dashboard has a row for each stage and one for the server; the lines in its graphs are the alarms' own thresholds.
func (p plan) dashboard() (Resource, error) {
	var body struct {
		Widgets []widget `json:"widgets"`
	}
	add := func(row int, graphs []properties) {
		for column, w := range graphs {
			w.Region, w.Period = "${AWS::Region}", 60
			body.Widgets = append(body.Widgets, widget{"metric", column * widgetWidth, row * widgetHeight, widgetWidth, widgetHeight, w})
		}
	}
	for row, s := range p.stages {
		add(row, p.row(s))
	}
	add(len(p.stages), p.serverRow())
	text, err := json.Marshal(body)
	if err != nil {
		return Resource{}, fmt.Errorf("encode the dashboard: %w", err)
	}
	return Resource{ID: "Dashboard", Type: "AWS::CloudWatch::Dashboard", Properties: Map{
		{"DashboardName", p.cluster()}, {"DashboardBody", Sub(text)},
	}}, nil
}

// row is a stage's: its queues by what SQS counts, its tasks by what ECS does, and what its workers say themselves.
func (p plan) row(s stage.Stage) []properties {
	queue, dead := s.QueueName(p.env), s.DLQName(p.env)
	ofQueue := func(metric, queue string) []string { return []string{"AWS/SQS", metric, "QueueName", queue} }
	own := func(signals ...stage.Signal) [][]string { return p.ownMetrics(s.Name, signals...) }
	return []properties{
		{Title: s.Name + ": messages", Stat: "Maximum", Metrics: [][]string{
			ofQueue("ApproximateNumberOfMessagesVisible", queue),
			ofQueue("ApproximateNumberOfMessagesNotVisible", queue),
			ofQueue("ApproximateNumberOfMessagesDelayed", queue),
		}, Annotations: threshold(s.Alarms(), stage.AlarmDepth)},
		{Title: s.Name + ": age of the oldest, s", Stat: "Maximum", Metrics: [][]string{
			ofQueue("ApproximateAgeOfOldestMessage", queue),
		}, Annotations: threshold(s.Alarms(), stage.AlarmAge)},
		{Title: s.Name + ": dead letters", Stat: "Maximum", Metrics: [][]string{
			ofQueue("ApproximateNumberOfMessagesVisible", dead),
		}, Annotations: threshold(s.Alarms(), stage.AlarmDLQ)},
		{Title: s.Name + ": tasks", Stat: "Average", Metrics: p.tasksOf(s.Name)},
		{Title: s.Name + ": state", Stat: "Maximum", Metrics: own(stage.SignalBreaker, stage.SignalPaused, stage.SignalStuck)},
		{Title: s.Name + ": faults", Stat: "Sum", Metrics: own(stage.SignalLost, stage.SignalRefused, stage.SignalQuarantine)},
	}
}

func (p plan) serverRow() []properties {
	return []properties{
		{Title: server + ": tasks", Stat: "Average", Metrics: p.tasksOf(server)},
		{Title: server + ": unsent messages are late, s", Stat: "Maximum", Metrics: p.ownMetrics(server, stage.SignalOutbox),
			Annotations: threshold(stage.ServerAlarms(), stage.AlarmOutbox)},
		{Title: server + ": state", Stat: "Maximum", Metrics: p.ownMetrics(server, stage.SignalRecord)},
	}
}

func (p plan) tasksOf(service string) [][]string {
	of := []string{"ClusterName", p.cluster(), "ServiceName", service}
	return [][]string{
		append([]string{"ECS/ContainerInsights", "RunningTaskCount"}, of...),
		append([]string{"ECS/ContainerInsights", "DesiredTaskCount"}, of...),
	}
}

// ownMetrics are what a stage's workers or the server say themselves.
func (p plan) ownMetrics(name string, signals ...stage.Signal) [][]string {
	var all [][]string
	for _, s := range signals {
		metric := []string{stage.Namespace, stage.OwnMetrics[s].Name}
		for _, d := range p.ownDimensions(name) {
			metric = append(metric, d.Key, fmt.Sprint(d.Value))
		}
		all = append(all, metric)
	}
	return all
}

func threshold(rules []stage.Alarm, name string) *annotations {
	for _, a := range rules {
		if a.Name == name {
			return &annotations{[]line{{name, a.Threshold}}}
		}
	}
	return nil
}
