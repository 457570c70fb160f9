package infra

import (
	"encoding/json"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Sizes on the dashboard's grid, which is 24 wide.
const (
	widgetWidth  = 6
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

// dashboard has a row for each stage; the lines in its graphs are the alarms' own thresholds.
func (p plan) dashboard() (Resource, error) {
	var body struct {
		Widgets []widget `json:"widgets"`
	}
	for row, s := range p.stages {
		for column, w := range p.row(s) {
			w.Region, w.Period = "${AWS::Region}", 60
			body.Widgets = append(body.Widgets, widget{"metric", column * widgetWidth, row * widgetHeight, widgetWidth, widgetHeight, w})
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Resource{}, fmt.Errorf("encode the dashboard: %w", err)
	}
	return Resource{ID: "Dashboard", Type: "AWS::CloudWatch::Dashboard", Properties: Map{
		{"DashboardName", p.cluster()}, {"DashboardBody", Sub(text)},
	}}, nil
}

func (p plan) row(s stage.Stage) []properties {
	queue, dead := s.QueueName(p.env), s.DLQName(p.env)
	service := []string{"ClusterName", p.cluster(), "ServiceName", s.Name}
	return []properties{
		{Title: s.Name + ": messages", Stat: "Maximum", Metrics: [][]string{
			{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue},
			{"AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "QueueName", queue},
			{"AWS/SQS", "ApproximateNumberOfMessagesDelayed", "QueueName", queue},
		}, Annotations: threshold(s, stage.AlarmDepth)},
		{Title: s.Name + ": age of the oldest, s", Stat: "Maximum", Metrics: [][]string{
			{"AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", queue},
		}, Annotations: threshold(s, stage.AlarmAge)},
		{Title: s.Name + ": dead letters", Stat: "Maximum", Metrics: [][]string{
			{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", dead},
		}, Annotations: threshold(s, stage.AlarmDLQ)},
		{Title: s.Name + ": tasks", Stat: "Average", Metrics: [][]string{
			append([]string{"ECS/ContainerInsights", "RunningTaskCount"}, service...),
			append([]string{"ECS/ContainerInsights", "DesiredTaskCount"}, service...),
			{stage.Namespace, stage.OwnMetrics[stage.SignalBreaker].Name, "Environment", p.env, "Stage", s.Name},
			{stage.Namespace, stage.OwnMetrics[stage.SignalPaused].Name, "Environment", p.env, "Stage", s.Name},
		}},
	}
}

func threshold(s stage.Stage, name string) *annotations {
	for _, a := range s.Alarms() {
		if a.Name == name {
			return &annotations{[]line{{name, a.Threshold}}}
		}
	}
	return nil
}
