package infra

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func (c *checker) task(m Map) {
	c.is("task-platform", m, List{"FARGATE"}, "RequiresCompatibilities")
	c.is("task-platform", m, "awsvpc", "NetworkMode")
	c.is("task-platform", m, "LINUX", "RuntimePlatform", "OperatingSystemFamily")
	c.is("task-platform", m, Ref("Architecture"), "RuntimePlatform", "CpuArchitecture")
	c.is("task-family", m, c.name(c.owner()), "Family")
	c.is("task-roles", m, GetAtt("ExecutionRole.Arn"), "ExecutionRoleArn")
	_, has := c.template.Resource("TaskRole")
	c.must(has == (m.Get("TaskRoleArn") == GetAtt("TaskRole.Arn")), "task-roles", "its role is %v", m.Get("TaskRoleArn"))
	c.is("scratch", m, List{Map{{"Name", "scratch"}}}, "Volumes")
	if size, ok := map[string][3]any{server: {"512", "1024", 30}, migration: {"256", "512", 30}}[c.template.Name]; ok {
		c.is("task-size", m, size[0], "Cpu")
		c.is("task-size", m, size[1], "Memory")
		c.is("stop-timeout", firstOf(m.Get("ContainerDefinitions")), size[2], "StopTimeout")
	}
	containers, _ := m.Get("ContainerDefinitions").(List)
	c.must(len(containers) == 1, "task-container", "%d containers, want 1", len(containers))
	for _, v := range containers {
		d, _ := v.(Map)
		c.container(d)
		if s, ok := c.stage(); ok {
			c.stageTask(s, m, d)
		}
	}
}

// firstOf is the first entry of a list of maps.
func firstOf(list any) Map {
	entries, _ := list.(List)
	if len(entries) == 0 {
		return nil
	}
	m, _ := entries[0].(Map)
	return m
}

func (c *checker) container(d Map) {
	c.is("task-container", d, c.owner(), "Name")
	c.is("task-container", d, true, "Essential")
	c.is("image-digest", d, Ref("Image"), "Image")
	c.is("image-digest", d, "enabled", "VersionConsistency")
	c.is("read-only-root", d, true, "ReadonlyRootFilesystem")
	user, _ := d.Get("User").(string)
	c.must(user == User && !strings.HasPrefix(user, "0") && user != "root", "non-root", "the user is %q", user)
	c.is("init-process", d, true, "LinuxParameters", "InitProcessEnabled")
	c.is("capabilities", d, Map{{"Drop", List{"ALL"}}}, "LinuxParameters", "Capabilities")
	c.is("scratch", d, List{Map{{"SourceVolume", "scratch"}, {"ContainerPath", ScratchPath}, {"ReadOnly", false}}}, "MountPoints")
	stop, _ := d.Get("StopTimeout").(int)
	c.must(time.Duration(stop)*time.Second <= stage.MaxStopTimeout && stop > 0, "stop-timeout", "%d s, want at most %v", stop, stage.MaxStopTimeout)
	c.is("logs-nonblocking", d, "awslogs", "LogConfiguration", "LogDriver")
	options, _ := d.Get("LogConfiguration", "Options").(Map)
	for key, want := range map[string]any{"awslogs-group": Ref("Logs"), "awslogs-region": Ref("AWS::Region"), "awslogs-stream-prefix": c.owner(), "mode": "non-blocking", "max-buffer-size": "25m"} {
		c.must(options.value(key) == want, "logs-nonblocking", "%s is %v, want %v", key, options.value(key), want)
	}
	c.secrets(d)
	c.only("task-surplus", d, "Name", "Image", "VersionConsistency", "Essential", "Command", "PortMappings", "User", "ReadonlyRootFilesystem", "LinuxParameters",
		"MountPoints", "StopTimeout", "HealthCheck", "Environment", "Secrets", "LogConfiguration")
	if c.template.Name == server {
		c.healthy(d, "/app/fleet", 10)
		c.is("server-command", d, List{"serve", "--addr", "0.0.0.0:8080"}, "Command")
		c.is("server-command", d, List{Map{{"ContainerPort", apiPort}}}, "PortMappings")
		c.variables(d, map[string]any{stage.EnvName: c.env, worker.EnvBlob: c.objectStore(), worker.EnvMetrics: worker.MetricsEMF,
			fleet.EnvProxies: Ref("TrustedProxies"), "AWS_REGION": Ref("AWS::Region")})
	}
	if c.template.Name == migration {
		c.is("server-command", d, List{"migrate"}, "Command")
		c.variables(d, map[string]any{stage.EnvName: c.env})
	}
}

// healthy wants a check by the binary itself, which is patient enough for its process.
func (c *checker) healthy(d Map, binary string, retries int) {
	c.is("health-check", d, List{"CMD", binary, "health"}, "HealthCheck", "Command")
	for name, want := range map[string]int{"Interval": 30, "Timeout": 20, "Retries": retries, "StartPeriod": 60} {
		c.is("health-check", d, want, "HealthCheck", name)
	}
}

// objectStore is where objects are, as workers and server are told.
func (c *checker) objectStore() Sub {
	return Sub("s3://stagefleet-" + c.env + "-${AWS::AccountId}-${AWS::Region}/" + ObjectPrefix)
}

// variables wants a variable to be said, and nothing that looks like a secret in the clear.
func (c *checker) variables(d Map, want map[string]any) {
	env, _ := d.Get("Environment").(List)
	got := map[string]any{}
	for _, v := range env {
		entry, _ := v.(Map)
		name, _ := entry.Get("Name").(string)
		got[name] = entry.Get("Value")
	}
	for name, value := range want {
		c.must(reflect.DeepEqual(got[name], value), "settings", "%s is %v, want %v", name, got[name], value)
	}
	c.must(len(got) == len(want), "settings", "%d variables, want %d", len(got), len(want))
}

// secrets come by reference, the record's first, and never as a variable.
func (c *checker) secrets(d Map) {
	list, _ := d.Get("Secrets").(List)
	first := firstOf(list)
	c.is("secret-by-reference", first, worker.EnvDatabase, "Name")
	c.is("secret-by-reference", first, Ref("DatabaseSecret"), "ValueFrom")
	s, _ := c.stage()
	want := List{Map{{"Name", worker.EnvDatabase}, {"ValueFrom", Ref("DatabaseSecret")}}}
	for _, name := range s.Providers {
		for _, one := range providers[name].secrets {
			want = append(want, If{one.condition, Map{{"Name", one.variable}, {"ValueFrom", Ref(one.parameter)}}, NoValue})
		}
	}
	c.must(reflect.DeepEqual(list, want), "secret-by-reference", "the secrets are %v, want %v", list, want)
	env, _ := d.Get("Environment").(List)
	for _, v := range env {
		entry, _ := v.(Map)
		name, _ := entry.Get("Name").(string)
		c.must(!strings.Contains(name, "KEY") && !strings.Contains(name, "SECRET") && !strings.Contains(name, "PASSWORD") && name != worker.EnvDatabase,
			"secret-by-reference", "%s is a plain variable", name)
	}
}

func (c *checker) stageTask(s stage.Stage, m, d Map) {
	c.is("stop-timeout", d, seconds(s.Durations.StopTimeout), "StopTimeout")
	c.is("task-size", m, itoa(s.Profile.CPU), "Cpu")
	c.is("task-size", m, itoa(s.Profile.Memory), "Memory")
	disk, _ := m.Get("EphemeralStorage", "SizeInGiB").(int)
	need := s.Profile.Scratch() // nothing is said up to 20 GiB, which every task has
	c.must(need <= 20<<30 && disk == 0 || disk >= 21 && int64(disk)<<30 >= need && int64(disk-1)<<30 < need, "scratch", "%d GiB, want room for %d bytes", disk, need)
	c.healthy(d, "/app/worker", 5)
	c.is("task-container", d, nil, "Command") // the image starts the worker itself, not a shell
	c.is("task-container", d, nil, "PortMappings")
	c.stageSettings(s, d)
}

func (c *checker) stageSettings(s stage.Stage, d Map) {
	env := map[string]string{}
	list, _ := d.Get("Environment").(List)
	for _, v := range list {
		entry, _ := v.(Map)
		name, _ := entry.Get("Name").(string)
		env[name], _ = entry.Get("Value").(string)
	}
	got, err := stage.ParseEnv(func(name string) string { return env[name] }, s.Name)
	c.must(err == nil && got.Hash() == c.hashOf(), "settings", "the worker would refuse its settings, or they are another manifest's: %v", err)
	want := map[string]any{
		worker.EnvBlob: c.objectStore(), worker.EnvSwitch: control.ParameterName(c.env), worker.EnvHealthAddr: healthAddr,
		worker.EnvMetrics: worker.MetricsEMF, "AWS_REGION": Ref("AWS::Region"),
	}
	for _, name := range []string{stage.EnvName, stage.EnvStage, stage.EnvStageHash} {
		if env[name] != "" {
			want[name] = env[name]
		}
	}
	for _, name := range s.Providers {
		for _, v := range providers[name].environment {
			want[v.Key] = v.Value
		}
	}
	c.variables(d, want)
}

// roleRules compare what a role may do with what its process needs: no star, and only the things that it is meant to use.
func (c *checker) roleRules(m Map) {
	trusts := Map{
		{"Effect", "Allow"}, {"Principal", Map{{"Service", "ecs-tasks.amazonaws.com"}}}, {"Action", "sts:AssumeRole"},
		{"Condition", Map{{"StringEquals", Map{{"aws:SourceAccount", Ref("AWS::AccountId")}}}, {"ArnLike", Map{{"aws:SourceArn", arn("ecs", "*")}}}}},
	}
	c.is("trust", m, Map{{"Version", "2012-10-17"}, {"Statement", List{trusts}}}, "AssumeRolePolicyDocument")
	c.is("role-path", m, "/stagefleet/"+c.env+"/", "Path")
	c.only("grant-surplus", m, "Path", "Description", "AssumeRolePolicyDocument", "Policies", "Tags")
	policies, _ := m.Get("Policies").(List)
	c.must(len(policies) == 1, "grant-surplus", "%d policies, want 1", len(policies))
	for _, v := range policies {
		policy, _ := v.(Map)
		for _, s := range statementsOf(policy.Get("PolicyDocument")) {
			c.noStar(s)
		}
	}
	want, err := c.wantedRole()
	c.must(err == nil && reflect.DeepEqual(m.Get("Policies"), want.Properties.Get("Policies")), "grant-target", "the role's grants are not those on what its process is meant to use")
	if s, ok := c.stage(); ok && c.resource.ID == "TaskRole" {
		c.stageGrants(s, m)
	}
}

func (c *checker) wantedRole() (Resource, error) {
	if c.resource.ID == "ExecutionRole" {
		secrets := []secret{databaseSecret}
		s, _ := c.stage()
		for _, name := range s.Providers {
			secrets = append(secrets, providers[name].secrets...)
		}
		return c.executionRole(c.owner(), secrets), nil
	}
	if s, ok := c.stage(); ok {
		return c.taskRole(s)
	}
	return c.serverRole(), nil
}

func (c *checker) noStar(s Map) {
	actions, _ := s.Get("Action").(List)
	resources, _ := s.Get("Resource").(List)
	c.must(len(actions) > 0 && len(resources) > 0, "grant-star", "a statement without actions or resources")
	for _, a := range actions {
		action, _ := a.(string)
		c.must(action != "" && !strings.Contains(action, "*"), "grant-star", "action %v", a)
	}
	for _, r := range resources {
		c.must(r != "*" || s.Get("Sid") == "PullToken" && reflect.DeepEqual(actions, List{"ecr:GetAuthorizationToken"}), "grant-star", "resource * for %v", actions)
	}
}

// stageGrants states once more, apart from what writes them, which things a worker may do something with.
func (c *checker) stageGrants(s stage.Stage, m Map) {
	sends := List{arn("sqs", s.QueueName(c.env)), arn("sqs", s.DLQName(c.env))}
	if next, ok := c.all.Stage(s.Next); ok {
		sends = append(sends, arn("sqs", next.QueueName(c.env)))
		if s.FanOut {
			join, _ := c.all.Stage(next.Next)
			sends = append(sends, arn("sqs", join.QueueName(c.env)))
		}
	}
	objects := "arn:${AWS::Partition}:s3:::stagefleet-" + c.env + "-${AWS::AccountId}-${AWS::Region}/fleet/"
	want := map[string]List{
		"sqs:ReceiveMessage": {sends[0]}, "sqs:DeleteMessage": {sends[0]}, "sqs:ChangeMessageVisibility": {sends[0]}, "sqs:SendMessage": sends,
		"ssm:GetParameter": {arn("ssm", "parameter/stagefleet/"+c.env+"/enabled")}, "ecs:UpdateTaskProtection": {arn("ecs", "task/stagefleet-"+c.env+"/*")},
		"s3:PutObject": {Sub(objects + "jobs/*/" + s.Name + "/*")}, "s3:GetObject": {Sub(objects + "uploads/*"), Sub(objects + "jobs/*")},
	}
	if s.ReadsOnly {
		want["s3:PutObject"] = nil
	}
	policies, _ := m.Get("Policies").(List)
	for action, resources := range want {
		var got List
		for _, p := range policies {
			policy, _ := p.(Map)
			for _, statement := range statementsOf(policy.Get("PolicyDocument")) {
				if actions, _ := statement.Get("Action").(List); slices.Contains(actions, any(action)) {
					on, _ := statement.Get("Resource").(List)
					got = append(got, on...)
				}
			}
		}
		c.must(reflect.DeepEqual(got, resources), "grant-target", "%s on %v, want %v", action, got, resources)
	}
}

func (c *checker) logs(g Map) {
	c.is("log-retention", g, LogDays, "RetentionInDays")
	c.is("log-name", g, "/stagefleet/"+c.env+"/"+c.owner(), "LogGroupName")
	c.kept("logs-kept")
}
