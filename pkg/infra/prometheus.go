package infra

import (
	"fmt"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// rules are the same alarms for a fleet that Prometheus watches: the server's /metrics for the queues, the workers'
// for what only they know. What CloudWatch alone sees has no rule: the age of dead letters, and tasks that do not run.
func (p plan) rules() ([]File, error) {
	var groups List
	for _, s := range p.stages {
		var rules List
		for _, a := range s.Alarms() {
			if expr := stageExpr(s, a); expr != "" {
				rules = append(rules, prometheusRule(s.Name, a, expr))
			}
		}
		groups = append(groups, Map{{"name", "stagefleet-" + s.Name}, {"rules", rules}})
	}
	var rules List
	for _, a := range stage.ServerAlarms() {
		if own, ok := stage.OwnMetrics[a.Signal]; ok {
			rules = append(rules, prometheusRule("server", a, often(fmt.Sprintf("max(%s) >= %g", own.Metric, a.Threshold), a)))
		}
	}
	groups = append(groups, Map{{"name", "stagefleet-server"}, {"rules", rules}})
	text, err := encode(Map{{"groups", groups}})
	return []File{{"prometheus/rules.yaml", text}}, err
}

func prometheusRule(name string, a stage.Alarm, expr string) Map {
	return Map{
		{"alert", alertName(a.Name)},
		{"expr", expr},
		{"labels", Map{{"stage", name}, {"severity", string(a.Severity)}}},
		{"annotations", Map{{"summary", upperFirst(a.Summary)}, {"action", upperFirst(a.Action)}, {"runbook", "runbooks/" + a.Name + ".md#" + firstAnchor}}},
	}
}

func alertName(alarm string) string { return "Stagefleet" + logical(alarm) }

// stageExpr is the rule as a query, empty if Prometheus has not got the signal.
func stageExpr(s stage.Stage, a stage.Alarm) string {
	expr := signalExpr(s, a)
	if expr == "" || a.DuringPause {
		return expr
	}
	return fmt.Sprintf("(%s) unless on() max(stagefleet_control_paused{stage=%q}) >= 1", expr, s.Name)
}

func signalExpr(s stage.Stage, a stage.Alarm) string {
	messages := func(state string) string {
		return fmt.Sprintf("max(stagefleet_stage_messages{stage=%q,state=%q})", s.Name, state)
	}
	switch a.Signal {
	case stage.SignalDLQ:
		return fmt.Sprintf("%s >= %g", messages("dead"), a.Threshold)
	case stage.SignalWaiting:
		return often(fmt.Sprintf("%s >= %g", messages("visible"), a.Threshold), a)
	case stage.SignalAge:
		return often(fmt.Sprintf("max(stagefleet_stage_oldest_age_seconds{stage=%q}) >= %g", s.Name, a.Threshold), a)
	case stage.SignalStalled:
		window := promDuration(a.Window())
		return fmt.Sprintf("min_over_time(%s[%s:1m]) >= %g unless on() sum(increase(stagefleet_pool_ends_total{pool=%q}[%s])) > 0",
			messages("visible"), window, a.Threshold, s.Name, window)
	default:
		return ownExpr(s, a)
	}
}

// ownExpr is about what only workers know.
func ownExpr(s stage.Stage, a stage.Alarm) string {
	own, ok := stage.OwnMetrics[a.Signal]
	switch {
	case !ok:
		return ""
	case own.Counter:
		return fmt.Sprintf("sum(increase(%s[%s])) >= %g", selector(own, s.Name), promDuration(a.Period), a.Threshold)
	}
	return often(fmt.Sprintf("max(%s) >= %g", selector(own, s.Name), a.Threshold), a)
}

// selector is the metric's series of one stage. Series without a label of the stage are told apart by the scrape's own label,
// which the configuration beside the rules sets.
func selector(own stage.Own, name string) string {
	label := own.StageLabel
	if label == "" {
		label = "stage"
	}
	matchers := []string{fmt.Sprintf("%s=%q", label, name)}
	if own.Label != "" {
		matchers = append(matchers, fmt.Sprintf("%s=~%q", own.Label, strings.Join(own.Values, "|")))
	}
	return own.Metric + "{" + strings.Join(matchers, ",") + "}"
}

// often is a comparison that must hold in Points of the last Of periods.
func often(comparison string, a stage.Alarm) string {
	return fmt.Sprintf("count_over_time((%s)[%s:%s]) >= %d", comparison, promDuration(a.Window()), promDuration(a.Period), a.Points)
}

func promDuration(d time.Duration) string { return fmt.Sprintf("%dm", d/time.Minute) }
