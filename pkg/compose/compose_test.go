package compose_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stagefleet/stagefleet/pkg/compose"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

var pipeline = stage.Pipeline{
	{Name: "read", Summary: "costs $5 a run", Next: "cut"},
	{Name: "cut", Summary: "cut", Queue: stage.Standard, Durations: stage.Durations{StopTimeout: 100e9}},
}

type file struct {
	Services map[string]struct {
		Environment map[string]string
		NetworkMode string `yaml:"network_mode"`
		Ports       []string
		Volumes     []string
		StopGrace   string   `yaml:"stop_grace_period"`
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
	}
}

func parsed(t *testing.T) file {
	t.Helper()
	text, err := compose.File(pipeline)
	if err != nil {
		t.Fatal(err)
	}
	again, err := compose.File(pipeline)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same manifest gives other bytes, %v", err)
	}
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAWorkerAcceptsTheSettingsThatTheFileGivesIt(t *testing.T) {
	f := parsed(t)
	for _, s := range pipeline {
		service := f.Services[s.Name]
		var environ []string
		for name, value := range service.Environment {
			environ = append(environ, name+"="+strings.ReplaceAll(value, "$$", "$"))
		}
		c, err := worker.ParseConfig(environ, s.Name)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		} else if c.Settings.Environment != compose.Env {
			t.Errorf("%s runs in %s", s.Name, c.Settings.Environment)
		}
		if !service.ReadOnly || len(service.CapDrop) != 1 {
			t.Errorf("%s may write or do more than it needs", s.Name)
		}
	}
	if got := f.Services["cut"].StopGrace; got != "1m40s" {
		t.Errorf("killed after %s, want the manifest's stop timeout", got)
	}
}

func TestOnlyTheAPIIsReachableAndOnlyFromThisMachine(t *testing.T) {
	f := parsed(t)
	for name, s := range f.Services {
		if s.NetworkMode != "" {
			t.Errorf("%s is in the network %s", name, s.NetworkMode)
		}
		want := []string(nil)
		if name == "server" {
			want = []string{"${FLEET_ADDR:-127.0.0.1:8080}:8080"}
		}
		if !slices.Equal(s.Ports, want) {
			t.Errorf("%s publishes %v, want %v", name, s.Ports, want)
		}
		if name != "key" && slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasPrefix(v, "key:") }) {
			t.Errorf("%s can read the operator's key", name)
		}
	}
}

func TestAManifestThatDoesNotHoldGivesNoFile(t *testing.T) {
	if _, err := compose.File(stage.Pipeline{{Name: "x", Summary: "s", Next: "gone"}}); err == nil {
		t.Error("accepted")
	}
}
