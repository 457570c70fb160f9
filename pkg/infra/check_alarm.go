package infra

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// ruleOf is the manifest's rule behind an alarm of the template.
func (c *checker) ruleOf(name string) (a stage.Alarm, query Map, ok bool) {
	s, isStage := c.stage()
	rules := stage.ServerAlarms()
	if isStage {
		rules = append(s.Alarms(), s.Paused())
	}
	i := slices.IndexFunc(rules, func(a stage.Alarm) bool { return logical(a.Name) == name })
	if i < 0 {
		return a, nil, false
	}
	a = rules[i]
	switch {
	case isStage:
		return a, c.stageQuery(s, a), true
	case a.Signal == stage.SignalServer:
		return a, c.missing(server, a.Period), true
	}
	return a, c.ownQuery(server, a, a.Signal), true
}

// alarm compares an alarm with its rule, and what it measures with what the rule is about.
func (c *checker) alarm(m Map) {
	a, query, ok := c.ruleOf(c.resource.ID)
	c.must(ok, "alarm-rule", "the manifest has no such rule")
	if !ok {
		return
	}
	c.is("alarm-threshold", m, a.Threshold, "Threshold")
	c.is("alarm-threshold", m, "GreaterThanOrEqualToThreshold", "ComparisonOperator")
	c.is("alarm-window", m, a.Of, "EvaluationPeriods")
	c.is("alarm-window", m, a.Points, "DatapointsToAlarm")
	c.is("alarm-missing-data", m, "notBreaching", "TreatMissingData")
	for _, p := range query {
		c.is("alarm-metric", m, p.Value, p.Key)
	}
	c.queueMetric(a, m)
	_, isStage := c.stage()
	if a.DuringPause || !isStage {
		c.tells(m, a.Severity)
	} else {
		c.is("alarm-actions", m, nil, "AlarmActions")
		c.is("alarm-actions", m, nil, "OKActions")
	}
	c.described(m, a.Name, a.Summary, a.Action)
	names := []string{"AlarmName", "AlarmDescription", "ComparisonOperator", "Threshold", "EvaluationPeriods", "DatapointsToAlarm", "TreatMissingData", "Tags", "AlarmActions", "OKActions"}
	for _, p := range query {
		names = append(names, p.Key)
	}
	c.only("alarm-surplus", m, names...)
}

// queueMetric states once more, apart from what writes them, what the alarms of dead letters and depth are about.
func (c *checker) queueMetric(a stage.Alarm, m Map) {
	s, _ := c.stage()
	queue, metric := s.QueueName(c.env), "ApproximateNumberOfMessagesVisible"
	switch a.Name {
	case stage.AlarmDLQ:
		queue = s.DLQName(c.env)
	case stage.AlarmDLQAge:
		queue, metric = s.DLQName(c.env), "ApproximateAgeOfOldestMessage"
	case stage.AlarmAge: // only while something waits: what is worked on has an age too
		for i, metric := range []string{"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"} {
			all, _ := m.Get("Metrics").(List)
			c.must(i < len(all), "alarm-metric", "it does not ask for %s", metric)
			if i < len(all) {
				q, _ := all[i].(Map)
				c.is("alarm-metric", q, metric, "MetricStat", "Metric", "MetricName")
				c.is("alarm-metric", q, List{Map{{"Name", "QueueName"}, {"Value", queue}}}, "MetricStat", "Metric", "Dimensions")
			}
		}
		return
	case stage.AlarmDepth:
	default:
		return
	}
	c.is("alarm-metric", m, "AWS/SQS", "Namespace")
	c.is("alarm-metric", m, metric, "MetricName")
	c.is("alarm-metric", m, "Maximum", "Statistic")
	c.is("alarm-metric", m, List{Map{{"Name", "QueueName"}, {"Value", queue}}}, "Dimensions")
}

// described wants a name by which doctor and people find the alarm, and a description that says what to do first and leads to
// a runbook.
func (c *checker) described(m Map, name, summary, action string) {
	c.is("alarm-name", m, AlarmName(c.env, c.owner(), name), "AlarmName")
	description, _ := m.Get("AlarmDescription").(Sub)
	c.must(strings.HasPrefix(string(description), upperFirst(summary)+". First: "+action) && strings.HasSuffix(string(description), " ${Runbooks}/"+name+".md#"+firstAnchor),
		"alarm-runbook", "the description does not say what to do first, or does not lead to the runbook: %s", description)
	_, err := texts.ReadFile("text/" + name + ".md")
	c.must(err == nil, "alarm-runbook", "there is no runbook %s", name)
}

// tells wants alarm and recovery to be told to the topic of the severity alone.
func (c *checker) tells(m Map, severity stage.Severity) {
	topic := List{arn("sns", c.cluster()+"-"+string(severity))}
	c.is("alarm-actions", m, topic, "AlarmActions")
	c.is("alarm-actions", m, topic, "OKActions")
}

func (c *checker) compositeAlarm(m Map) {
	s, isStage := c.stage()
	composite, rule := stage.ServerBroken(), anyOf(stage.ServerBroken()).text()
	switch {
	case isStage && c.resource.ID == logical(stage.AlarmBroken):
		composite, rule = s.Broken(), c.brokenRule(s).text()
	case isStage:
		composite, rule = s.Attention(), anyOf(s.Attention()).text()
		c.is("alarm-suppressor", m, Ref(logical(stage.AlarmPaused)), "ActionsSuppressor")
		c.is("alarm-suppressor", m, 120, "ActionsSuppressorWaitPeriod")
		c.is("alarm-suppressor", m, 300, "ActionsSuppressorExtensionPeriod")
	}
	c.is("composite-rule", m, Sub(rule), "AlarmRule")
	if isStage && composite.Name == stage.AlarmBroken {
		c.must(strings.Contains(rule, `AND NOT ALARM("${Paused}")`) && strings.HasPrefix(rule, `(ALARM("${DlqDepth}") OR `), "composite-rule", "a pause must suppress all but the dead letters: %s", rule)
	}
	c.tells(m, composite.Severity)
	c.described(m, composite.Name, composite.Summary, composite.Action)
	c.only("alarm-surplus", m, "AlarmName", "AlarmDescription", "AlarmRule", "Tags", "AlarmActions", "OKActions", "ActionsSuppressor", "ActionsSuppressorWaitPeriod", "ActionsSuppressorExtensionPeriod")
}

// board wants a dashboard that CloudWatch can read, with a row for each stage and the alarms' thresholds as lines.
func (c *checker) board(m Map) {
	c.is("dashboard", m, c.cluster(), "DashboardName")
	text, _ := m.Get("DashboardBody").(Sub)
	var body struct{ Widgets []widget }
	err := json.Unmarshal([]byte(text), &body)
	c.must(err == nil, "dashboard", "it is not JSON: %v", err)
	drawn := map[string]float64{}
	for _, w := range body.Widgets {
		name, _, _ := strings.Cut(w.Properties.Title, ":")
		drawn[name]++
		if w.Properties.Annotations != nil {
			for _, l := range w.Properties.Annotations.Horizontal {
				drawn[name+" "+l.Label] = l.Value
			}
		}
	}
	for _, a := range stage.ServerAlarms() {
		c.must(a.Name != stage.AlarmOutbox || drawn[server+" "+a.Name] == a.Threshold, "dashboard", "%s is not drawn where it rings, at %v", a.Name, a.Threshold)
	}
	for _, s := range c.stages {
		c.must(drawn[s.Name] == 6, "dashboard", "%v graphs of %s, want 6", drawn[s.Name], s.Name)
		for _, a := range s.Alarms() {
			if slices.Contains([]string{stage.AlarmDLQ, stage.AlarmDepth, stage.AlarmAge}, a.Name) {
				c.must(drawn[s.Name+" "+a.Name] == a.Threshold, "dashboard", "%s of %s is drawn at %v, rings at %v", a.Name, s.Name, drawn[s.Name+" "+a.Name], a.Threshold)
			}
		}
	}
}
