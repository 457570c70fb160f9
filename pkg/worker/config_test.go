package worker_test

import (
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// environ is the environment of a worker named "cut", changed by NAME=value pairs;
// a pair without value removes the name.
func environ(t *testing.T, changes ...string) []string {
	t.Helper()
	p := stage.Pipeline{{Name: "read", Summary: "s", Next: "cut"}, {Name: "cut", Summary: "s"}}
	s, err := p.Settings("test", "cut")
	if err != nil {
		t.Fatal(err)
	}
	vars, err := s.Env()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": "/bin", "FLEET_DATABASE_URL": "sqlite:/x/fleet.db", "FLEET_BLOB_URL": "file:///x/objects"}
	for _, v := range vars {
		env[v.Name] = v.Value
	}
	for _, c := range changes {
		k, v, set := strings.Cut(c, "=")
		env[k] = v
		if !set {
			delete(env, k)
		}
	}
	var list []string
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list
}

func TestAUsableEnvironmentIsRead(t *testing.T) {
	c, err := worker.ParseConfig(environ(t, "FLEET_PARENT_FD=3", "FLEET_HEALTH_ADDR=127.0.0.1:0",
		"ECS_AGENT_URI=http://169.254.170.2/api/x", "FLEET_SPEECH_URL=https://speech.test/v1"), "cut")
	if err != nil {
		t.Fatal(err)
	}
	if c.Settings.Stage.Name != "cut" || c.ParentFD != 3 || c.LogLevel != "info" || c.Database != "sqlite:/x/fleet.db" {
		t.Errorf("%+v", c)
	}
}

func TestAnEnvironmentThatCannotWorkIsNamedInOneLine(t *testing.T) {
	cases := []struct{ change, name string }{
		{"FLEET_DATABASE_URL", "FLEET_DATABASE_URL"},
		{"FLEET_DATABASE_URL=mysql://x", "FLEET_DATABASE_URL"},
		{"FLEET_BLOB_URL", "FLEET_BLOB_URL"},
		{"FLEET_BLOB_URL=/x/objects", "FLEET_BLOB_URL"},
		{"FLEET_METRICS=statsd", "FLEET_METRICS"},
		{"FLEET_PARENT_FD=two", "FLEET_PARENT_FD"},
		{"FLEET_PARENT_FD=2", "FLEET_PARENT_FD"},
		{"FLEET_HEALTH_ADDR=8080", "FLEET_HEALTH_ADDR"},
		{"FLEET_LOG_LEVEL=loud", "FLEET_LOG_LEVEL"},
		{"FLEET_SWITCH_PARAMETER=enabled", "FLEET_SWITCH_PARAMETER"},
		{"ECS_AGENT_URI=ftp://x", "ECS_AGENT_URI"},
		{"FLEET_STAGE", "FLEET_STAGE"},
		{"FLEET_STAGE_HASH=0", "FLEET_STAGE_HASH"},
		{"FLEET_COLOUR=red", "FLEET_COLOUR"},
	}
	for _, c := range cases {
		_, err := worker.ParseConfig(environ(t, c.change), "cut")
		if err == nil || !strings.HasPrefix(err.Error(), c.name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line that begins with %s", c.change, err, c.name)
		}
	}
}

func TestAWorkerRefusesAnotherStagesSettings(t *testing.T) {
	if _, err := worker.ParseConfig(environ(t), "read"); err == nil {
		t.Error("accepted")
	}
}

func TestTheValueOfAnUnknownVariableIsNotRepeated(t *testing.T) {
	_, err := worker.ParseConfig(environ(t, "FLEET_ANTHROPIC_APIKEY=sk-secret"), "cut")
	if err == nil || strings.Contains(err.Error(), "sk-secret") {
		t.Error(err)
	}
}
