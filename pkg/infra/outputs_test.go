package infra_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

// ruleFile is what is read of the file for Prometheus.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []alertRule
	}
}

type alertRule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

// alertRules are the alerts by stage and name, such as "ingest DlqDepth".
func alertRules(t *testing.T) map[string]alertRule {
	t.Helper()
	var parsed ruleFile
	for _, f := range generate(t) {
		if f.Name == "prometheus/rules.yaml" {
			if err := yaml.Unmarshal(f.Text, &parsed); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := map[string]alertRule{}
	for _, g := range parsed.Groups {
		for _, r := range g.Rules {
			all[r.Labels["stage"]+" "+strings.TrimPrefix(r.Alert, "Stagefleet")] = r
		}
	}
	return all
}

// id is the name of a rule as resources and alerts have it.
func id(alarm string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(alarm, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// ruled is a rule or a composite: what every output must have, or say why not.
type ruled struct {
	of, template, name string
	severity           stage.Severity
	not                map[stage.Output]string
}

func everyRule() []ruled {
	var all []ruled
	add := func(of, template string, rules []stage.Alarm, composites ...stage.Composite) {
		for _, a := range rules {
			all = append(all, ruled{of, template, a.Name, a.Severity, a.Not})
		}
		for _, c := range composites {
			all = append(all, ruled{of, template, c.Name, c.Severity, c.Not})
		}
	}
	for _, s := range workers.Stages {
		add(s.Name, "stage-"+s.Name, append(s.Alarms(), s.Paused()), s.Broken(), s.Attention())
	}
	add("server", "server", stage.ServerAlarms(), stage.ServerBroken())
	return all
}

// TestEveryRuleComesOutInEveryOutputOrSaysWhyNot leaves the server's own evaluation to package admin.
func TestEveryRuleComesOutInEveryOutputOrSaysWhyNot(t *testing.T) {
	alerts := alertRules(t)
	rules := everyRule()
	for _, r := range rules {
		alarm, made := template(t, r.template).Resource(id(r.name))
		if made == (r.not[stage.CloudWatch] != "") {
			t.Errorf("%s %s: CloudWatch has it: %v, reason against it: %q", r.of, r.name, made, r.not[stage.CloudWatch])
		}
		if made && alarm.Properties.Get("AlarmName") != infra.AlarmName(env, r.of, r.name) {
			t.Errorf("%s %s is called %v", r.of, r.name, alarm.Properties.Get("AlarmName"))
		}
		alert, made := alerts[r.of+" "+id(r.name)]
		if made == (r.not[stage.Prometheus] != "") {
			t.Errorf("%s %s: Prometheus has it: %v, reason against it: %q", r.of, r.name, made, r.not[stage.Prometheus])
		}
		if made && (alert.Expr == "" || alert.Labels["severity"] != string(r.severity) || !strings.Contains(alert.Annotations["runbook"], "/"+r.name+".md")) {
			t.Errorf("%s %s: %+v", r.of, r.name, alert)
		}
		for output := range r.not {
			if output != stage.CloudWatch && output != stage.Local && output != stage.Prometheus {
				t.Errorf("%s %s: there is no output %q", r.of, r.name, output)
			}
		}
		delete(alerts, r.of+" "+id(r.name))
	}
	for name := range alerts {
		t.Errorf("an alert without a rule: %s", name)
	}
	t.Logf("%d rules", len(rules))
}

// TestOnlyCompositesPageAndAPauseSuppressesAllButDeadLetters looks at who is told in CloudWatch and in Prometheus.
func TestOnlyCompositesPageAndAPauseSuppressesAllButDeadLetters(t *testing.T) {
	alerts := alertRules(t)
	page := infra.List{infra.Sub("arn:${AWS::Partition}:sns:${AWS::Region}:${AWS::AccountId}:stagefleet-prod-page")}
	for _, s := range workers.Stages {
		tmpl := template(t, "stage-"+s.Name)
		for _, a := range s.Alarms() {
			r, _ := tmpl.Resource(id(a.Name))
			told, isPage := r.Properties.Get("AlarmActions").(infra.List)
			if told != nil && told[0] == page[0] || a.Severity == stage.Page || alerts[s.Name+" "+id(a.Name)].Labels["severity"] == "page" {
				t.Errorf("%s %s pages by itself", s.Name, a.Name)
			}
			dead := a.Name == stage.AlarmDLQ || a.Name == stage.AlarmDLQAge
			if a.DuringPause != dead || isPage != dead || strings.Contains(alerts[s.Name+" "+id(a.Name)].Expr, "control_paused") == dead {
				t.Errorf("%s %s: during a pause: %v, tells by itself: %v, asks for a pause: %s", s.Name, a.Name, a.DuringPause, isPage, alerts[s.Name+" "+id(a.Name)].Expr)
			}
		}
		broken, _ := tmpl.Resource(id(stage.AlarmBroken))
		told, _ := broken.Properties.Get("AlarmActions").(infra.List)
		if len(told) != 1 || told[0] != page[0] || alerts[s.Name+" StageBroken"].Labels["severity"] != "page" {
			t.Errorf("%s: stage-broken tells %v, %+v", s.Name, told, alerts[s.Name+" StageBroken"])
		}
		rule := string(broken.Properties.Get("AlarmRule").(infra.Sub))
		if rule != `(ALARM("${DlqDepth}") OR (((ALARM("${QueueDepth}") AND ALARM("${OldestAge}")) OR ALARM("${NoProgress}")) AND NOT ALARM("${Paused}")))` {
			t.Errorf("%s: stage-broken is %s", s.Name, rule)
		}
	}
}

// TestEveryAlarmHasItsPageAndEveryPageItsAlarm also wants each page to begin with what the alarm says to do first.
func TestEveryAlarmHasItsPageAndEveryPageItsAlarm(t *testing.T) {
	pages := map[string]string{}
	for _, f := range generate(t) {
		if name, ok := strings.CutPrefix(f.Name, "runbooks/"); ok {
			pages[strings.TrimSuffix(name, ".md")] = string(f.Text)
		}
	}
	alarms := map[string]bool{}
	for _, r := range everyRule() {
		alarms[r.name] = true
		if page, ok := pages[r.name]; !ok || !strings.Contains(page, "\n## Do this first\n") {
			t.Errorf("%s has no page, or one that does not say what to do first", r.name)
		}
	}
	for name := range pages {
		if !alarms[name] {
			t.Errorf("the page %s is of no alarm", name)
		}
	}
}
