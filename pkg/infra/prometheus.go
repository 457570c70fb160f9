package infra

import (
	"fmt"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// rules are the same alarms for a fleet that Prometheus watches: the server's /metrics for queues and record, the workers'
// for what only they know.
func (p plan) rules() ([]File, error) {
	var groups List
	for _, s := range p.stages {
		var rules List
		for _, a := range append(s.Alarms(), s.Paused()) {
			if a.Not[stage.Prometheus] == "" {
				rules = append(rules, prometheusRule(s.Name, a, stageExpr(s, a)))
			}
		}
		groups = append(groups, Map{{"name", "stagefleet-" + s.Name}, {"rules", append(rules, composites(s.Name, s.Broken(), s.Attention())...)}})
	}
	var rules List
	for _, a := range stage.ServerAlarms() {
		rules = append(rules, prometheusRule(server, a, serverExpr(a)))
	}
	groups = append(groups, Map{{"name", "stagefleet-" + server}, {"rules", append(rules, composites(server, stage.ServerBroken())...)}})
	text, err := encode(Map{{"groups", groups}})
	return []File{{"prometheus/rules.yaml", text}}, err
}

// server and migration are the names of the server, and of the task that migrates the record, where stages have theirs.
const (
	server    = "server"
	migration = "migrate"
)

// composites ask which of the rules before them in the group ring.
func composites(name string, all ...stage.Composite) List {
	var rules List
	for _, c := range all {
		if c.Not[stage.Prometheus] != "" {
			continue
		}
		var terms []string
		for _, t := range c.Any {
			var ringing []string
			for _, alarm := range t {
				ringing = append(ringing, fmt.Sprintf("max(ALERTS{alertname=%q,alertstate=\"firing\",stage=%q})", alertName(alarm), name))
			}
			terms = append(terms, "("+strings.Join(ringing, " and ")+")")
		}
		rules = append(rules, prometheusRule(name, stage.Alarm{Name: c.Name, Severity: c.Severity, Summary: c.Summary, Action: c.Action}, strings.Join(terms, " or ")))
	}
	return rules
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

// serverExpr is a rule of the server as a query. A server that does not run is one whose metric nobody has.
func serverExpr(a stage.Alarm) string {
	lag := stage.OwnMetrics[stage.SignalOutbox].Metric
	if a.Signal == stage.SignalServer {
		return often(fmt.Sprintf("absent(%s)", lag), a)
	}
	return often(fmt.Sprintf("max(%s) >= %g", stage.OwnMetrics[a.Signal].Metric, a.Threshold), a)
}

// stageExpr is the rule as a query.
func stageExpr(s stage.Stage, a stage.Alarm) string {
	expr := signalExpr(s, a)
	if a.DuringPause {
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
	case stage.SignalDLQAge:
		return often(fmt.Sprintf("max(stagefleet_stage_dead_age_seconds{stage=%q}) >= %g", s.Name, a.Threshold), a)
	case stage.SignalMissing: // how many are desired only ECS knows; the fewest are
		return often(fmt.Sprintf("%d - max(stagefleet_stage_workers{stage=%q}) >= %g", s.Profile.MinTasks, s.Name, a.Threshold), a)
	case stage.SignalStalled:
		window, paused := promDuration(a.Window()), selector(stage.OwnMetrics[stage.SignalPaused], s.Name)
		return fmt.Sprintf("%s unless on() sum(increase(%s[%s])) > 0 unless on() max(max_over_time(%s[%s])) >= 1",
			often(fmt.Sprintf("%s >= %g", messages("visible"), a.Threshold), a), selector(stage.OwnMetrics[stage.SignalFinished], s.Name), window, paused, window)
	default:
		return ownExpr(s, a)
	}
}

// ownExpr is about what only workers know.
func ownExpr(s stage.Stage, a stage.Alarm) string {
	own := stage.OwnMetrics[a.Signal]
	if own.Counter {
		return often(fmt.Sprintf("sum(increase(%s[%s])) >= %g", selector(own, s.Name), promDuration(a.Period), a.Threshold), a)
	}
	return often(fmt.Sprintf("max(%s) >= %g", selector(own, s.Name), a.Threshold), a)
}

// selector is the metric's series of one stage.
func selector(own stage.Own, name string) string {
	matchers := []string{fmt.Sprintf("%s=%q", own.StageLabel, name)}
	if own.Label != "" {
		matchers = append(matchers, fmt.Sprintf("%s=~%q", own.Label, strings.Join(own.Values, "|")))
	}
	return own.Metric + "{" + strings.Join(matchers, ",") + "}"
}

// often is a comparison that must hold in Points of the last Of periods.
func often(comparison string, a stage.Alarm) string {
	if a.Of == 1 {
		return comparison
	}
	// A second less than the window holds just Of periods: up to Prometheus 2 both of its ends belong to it.
	window := fmt.Sprintf("%dm59s", a.Window()/time.Minute-1)
	return fmt.Sprintf("count_over_time((%s)[%s:%s]) >= %d", comparison, window, promDuration(a.Period), a.Points)
}

func promDuration(d time.Duration) string { return fmt.Sprintf("%dm", d/time.Minute) }
