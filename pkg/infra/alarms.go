package infra

import (
	"fmt"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// The topics that alarms tell: one wakes people, one leaves a note.
var topics = map[stage.Severity]string{stage.Page: "page", stage.Inform: "inform"}

func (p plan) topic(s stage.Severity) Sub { return arn("sns", p.name(topics[s])) }

// AlarmName is the name of an alarm in CloudWatch.
func AlarmName(env, stageName, alarm string) string {
	return "stagefleet-" + env + "-" + stageName + "-" + alarm
}

// stageAlarms are the rules of a stage and what is made of them. Leaves that a pause suppresses have no action of their own:
// CloudWatch can suppress a composite only, so one composite informs of all of them, and another one pages.
func (p plan) stageAlarms(s stage.Stage) []Resource {
	var all []Resource
	for _, a := range s.Alarms() {
		r := p.metricAlarm(s.Name, a, p.stageQuery(s, a))
		if a.DuringPause {
			r.Properties = append(r.Properties, p.actions(a.Severity)...)
		}
		all = append(all, r)
	}
	all = append(all, p.metricAlarm(s.Name, s.Paused(), p.ownQuery(s.Name, s.Paused(), stage.SignalPaused)))
	attention := p.composite(s.Name, s.Attention(), anyOf(s.Attention()))
	attention.Properties = append(attention.Properties,
		Prop{"ActionsSuppressor", Ref(logical(stage.AlarmPaused))},
		Prop{"ActionsSuppressorWaitPeriod", 120},
		Prop{"ActionsSuppressorExtensionPeriod", 300})
	return append(all, p.composite(s.Name, s.Broken(), p.brokenRule(s)), attention)
}

// metricAlarm is one rule. Its query is a single metric or a list of them.
func (p plan) metricAlarm(stageName string, a stage.Alarm, query Map) Resource {
	props := Map{
		{"AlarmName", AlarmName(p.env, stageName, a.Name)},
		{"AlarmDescription", describe(a.Name, a.Summary, a.Action)},
	}
	props = append(props, query...)
	return Resource{ID: logical(a.Name), Type: "AWS::CloudWatch::Alarm", Properties: append(props, Map{
		{"ComparisonOperator", "GreaterThanOrEqualToThreshold"},
		{"Threshold", a.Threshold},
		{"EvaluationPeriods", a.Of},
		{"DatapointsToAlarm", a.Points},
		{"TreatMissingData", "notBreaching"},
		{"Tags", p.tags(stageName)},
	}...)}
}

// describe is what the person who is told reads first.
func describe(name, summary, action string) Sub {
	return Sub(fmt.Sprintf("%s. First: %s. ${Runbooks}/%s.md#%s", upperFirst(summary), action, name, firstAnchor))
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// actions tell one topic of alarm and recovery.
func (p plan) actions(s stage.Severity) Map {
	return Map{{"AlarmActions", List{p.topic(s)}}, {"OKActions", List{p.topic(s)}}}
}

func (p plan) composite(stageName string, c stage.Composite, r rule) Resource {
	return Resource{ID: logical(c.Name), Type: "AWS::CloudWatch::CompositeAlarm", Properties: append(Map{
		{"AlarmName", AlarmName(p.env, stageName, c.Name)},
		{"AlarmDescription", describe(c.Name, c.Summary, c.Action)},
		{"AlarmRule", Sub(r.text())},
		{"Tags", p.tags(stageName)},
	}, p.actions(c.Severity)...)}
}

// rule is the expression of a composite alarm.
type rule interface{ text() string }

type (
	ringing string // the name of an alarm of the stack
	not     struct{ of rule }
	every   []rule
	any1    []rule
)

func (r ringing) text() string { return `ALARM("${` + logical(string(r)) + `}")` }
func (r not) text() string     { return "NOT " + r.of.text() }
func (r every) text() string   { return joined(r, " AND ") }
func (r any1) text() string    { return joined(r, " OR ") }

func joined(rules []rule, word string) string {
	var texts []string
	for _, r := range rules {
		texts = append(texts, r.text())
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "(" + strings.Join(texts, word) + ")"
}

func anyOf(c stage.Composite) rule {
	var terms any1
	for _, t := range c.Any {
		terms = append(terms, allOf(t))
	}
	return terms
}

func allOf(t stage.Term) rule {
	var all every
	for _, name := range t {
		all = append(all, ringing(name))
	}
	return all
}

// brokenRule rings while the stage is paused only for what a pause does not explain.
func (p plan) brokenRule(s stage.Stage) rule {
	during := map[string]bool{}
	for _, a := range s.Alarms() {
		during[a.Name] = a.DuringPause
	}
	var always, unlessPaused any1
	for _, t := range s.Broken().Any {
		if during[t[0]] {
			always = append(always, allOf(t))
		} else {
			unlessPaused = append(unlessPaused, allOf(t))
		}
	}
	return append(always, every{unlessPaused, not{ringing(stage.AlarmPaused)}})
}
