package infra

import (
	"reflect"
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
		return a, c.missing("server", a.Period), true
	}
	return a, c.ownQuery("server", a, a.Signal), true
}

// alarm compares an alarm with its rule, and what it measures with what the rule is about.
func (c *checker) alarm(m Map) {
	a, query, ok := c.ruleOf(c.resource.ID)
	c.must(ok, "alarm-rule", "the manifest has no such rule")
	if !ok {
		return
	}
	c.must(m.Get("Threshold") == a.Threshold && m.Get("ComparisonOperator") == "GreaterThanOrEqualToThreshold", "alarm-threshold", "%v, want >= %v", m.Get("Threshold"), a.Threshold)
	c.must(m.Get("EvaluationPeriods") == a.Of && m.Get("DatapointsToAlarm") == a.Points, "alarm-window", "%v of %v, want %d of %d", m.Get("DatapointsToAlarm"), m.Get("EvaluationPeriods"), a.Points, a.Of)
	c.must(m.Get("TreatMissingData") == "notBreaching", "alarm-missing-data", "%v, want notBreaching", m.Get("TreatMissingData"))
	for _, p := range query {
		c.must(reflect.DeepEqual(m.Get(p.Key), p.Value), "alarm-metric", "%s is %v, want %v", p.Key, m.Get(p.Key), p.Value)
	}
	told := m.Get("AlarmActions") != nil
	_, isStage := c.stage()
	c.must(told == (a.DuringPause || !isStage), "alarm-actions", "tells somebody: %v", told)
	description, _ := m.Get("AlarmDescription").(Sub)
	c.must(strings.HasSuffix(string(description), "/"+a.Name+".md#"+firstAnchor), "alarm-runbook", "the description does not lead to the runbook")
}

func (c *checker) compositeAlarm(m Map) {
	c.must(m.Get("AlarmActions") != nil && m.Get("OKActions") != nil, "alarm-actions", "nobody is told")
	if c.resource.ID == logical(stage.AlarmAttention) {
		c.must(m.Get("ActionsSuppressor") == Ref(logical(stage.AlarmPaused)), "alarm-suppressor", "a pause does not suppress it")
	}
	if s, ok := c.stage(); ok && c.resource.ID == logical(stage.AlarmBroken) {
		c.must(m.Get("AlarmRule") == Sub(c.brokenRule(s).text()), "composite-rule", "%v, want %s", m.Get("AlarmRule"), c.brokenRule(s).text())
	}
}

func (c *checker) task(m Map) {
	containers, _ := m.Get("ContainerDefinitions").(List)
	for _, v := range containers {
		d, _ := v.(Map)
		c.must(d.Get("ReadonlyRootFilesystem") == true, "read-only-root", "the root file system may be written to")
		user, _ := d.Get("User").(string)
		c.must(user != "" && !strings.HasPrefix(user, "0") && user != "root", "non-root", "the user is %q", user)
		c.must(d.Get("LinuxParameters", "InitProcessEnabled") == true, "init-process", "no init process passes signals on")
		c.must(d.Get("LogConfiguration", "LogDriver") == "awslogs", "logs", "the log goes nowhere")
		c.must(d.Get("VersionConsistency") == "enabled", "image-digest", "the image may change under its tag")
		if s, ok := c.stage(); ok {
			c.stageTask(s, m, d)
		}
	}
}

func (c *checker) stageTask(s stage.Stage, m, d Map) {
	c.must(d.Get("StopTimeout") == seconds(s.Durations.StopTimeout), "stop-timeout", "%v s, want %v", d.Get("StopTimeout"), s.Durations.StopTimeout)
	c.must(m.Get("Cpu") == itoa(s.Profile.CPU) && m.Get("Memory") == itoa(s.Profile.Memory), "task-size", "%v / %v, want %d / %d", m.Get("Cpu"), m.Get("Memory"), s.Profile.CPU, s.Profile.Memory)
	env := map[string]string{}
	list, _ := d.Get("Environment").(List)
	for _, v := range list {
		entry, _ := v.(Map)
		name, _ := entry.Get("Name").(string)
		env[name], _ = entry.Get("Value").(string)
	}
	got, err := stage.ParseEnv(func(name string) string { return env[name] }, s.Name)
	set, _ := c.all.Settings(c.env, s.Name) // Ordered has validated the manifest
	c.must(err == nil && got.Hash() == set.Hash(), "settings", "the worker would refuse its settings, or they are another manifest's: %v", err)
}

func (c *checker) service(m Map) {
	c.must(m.Get("AvailabilityZoneRebalancing") == "DISABLED", "zone-rebalancing", "busy tasks may be moved between zones")
	c.must(m.Get("DeploymentConfiguration", "DeploymentCircuitBreaker", "Rollback") == true, "circuit-breaker", "a bad deployment does not go back")
	alarms, _ := m.Get("DeploymentConfiguration", "Alarms", "AlarmNames").(List)
	c.must(!slices.Contains(alarms, any(Ref(logical(stage.AlarmDLQ)))), "deployment-alarms", "a dead letter from before would undo every deployment")
	s, ok := c.stage()
	if !ok {
		return
	}
	c.must(len(alarms) > 0, "deployment-alarms", "no alarm stops a bad deployment")
	c.must(m.Get("DesiredCount") == nil, "desired-count", "every deployment would undo what scaling has decided")
	c.must(reflect.DeepEqual(m.Get("CapacityProviderStrategy"), capacity(s)), "spot", "the capacity is not what the stage says: Spot only where it does")
}

func (c *checker) bounds(m Map) {
	s, _ := c.stage()
	c.must(m.Get("MinCapacity") == s.Profile.MinTasks && m.Get("MaxCapacity") == s.Profile.MaxTasks, "scaling-bounds", "%v to %v, want %d to %d", m.Get("MinCapacity"), m.Get("MaxCapacity"), s.Profile.MinTasks, s.Profile.MaxTasks)
}

// policy compares the whole of a policy's metrics: one letter in an expression, and the fleet does not scale.
func (c *checker) policy(m Map) {
	s, _ := c.stage()
	want := c.scaling(s).Properties
	const of = "TargetTrackingScalingPolicyConfiguration"
	c.must(m.Get(of, "TargetValue") == s.BacklogTarget(), "scaling-target", "%v, want %v", m.Get(of, "TargetValue"), s.BacklogTarget())
	c.must(m.Get(of, "PredefinedMetricSpecification") == nil, "scaling-metric", "a second measure beside the backlog kills busy tasks")
	c.must(reflect.DeepEqual(m.Get(of, "CustomizedMetricSpecification"), want.Get(of, "CustomizedMetricSpecification")), "scaling-metric", "the backlog is not what waits, is in flight and is delayed per running task")
}

// roleRules hold a role to what its process needs: no star, and only the queues that it is meant to use.
func (c *checker) roleRules(m Map) {
	policies, _ := m.Get("Policies").(List)
	for _, v := range policies {
		policy, _ := v.(Map)
		for _, s := range statementsOf(policy.Get("PolicyDocument")) {
			actions, _ := s.Get("Action").(List)
			resources, _ := s.Get("Resource").(List)
			for _, a := range actions {
				action, _ := a.(string)
				c.must(action != "" && !strings.Contains(action, "*"), "grant-star", "action %v", a)
			}
			for _, r := range resources {
				c.must(r != "*" || s.Get("Sid") == "PullToken", "grant-star", "resource * for %v", actions)
			}
		}
	}
	s, ok := c.stage()
	if want, err := c.taskRole(s); ok && c.resource.ID == "TaskRole" {
		c.must(err == nil && reflect.DeepEqual(m.Get("Policies"), want.Properties.Get("Policies")), "grant-target", "the role's grants are not those on the stage's own queue, dead letters, next queue, objects and switch")
	}
}
