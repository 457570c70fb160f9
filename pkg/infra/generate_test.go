package infra_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers"
)

const env = "prod"

func generate(t *testing.T) []infra.File {
	t.Helper()
	files, err := infra.Generate(workers.Stages, env)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func templates(t *testing.T) []infra.Template {
	t.Helper()
	all, err := infra.Templates(workers.Stages, env)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func template(t *testing.T, name string) infra.Template {
	t.Helper()
	for _, tmpl := range templates(t) {
		if tmpl.Name == name {
			return tmpl
		}
	}
	t.Fatalf("no template %s", name)
	return infra.Template{}
}

// spent is the time that processors have worked for this process, which says what a run costs on a busy machine too.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func TestTheSameManifestGivesTheSameBytesWithinASecond(t *testing.T) {
	began, before := time.Now(), spent(t)
	first := generate(t)
	took := spent(t) - before
	t.Logf("generated %d files in %v of work, %v by the clock", len(first), took, time.Since(began))
	if took > time.Second && !raceEnabled {
		t.Errorf("took %v, at most 1 s", took)
	}
	for range 3 {
		again := generate(t)
		for i, f := range first {
			if again[i].Name != f.Name || !bytes.Equal(again[i].Text, f.Text) {
				t.Fatalf("%s differs from run to run", f.Name)
			}
		}
	}
}

func TestEveryTemplateCanBeDeployedAsText(t *testing.T) {
	for _, tmpl := range templates(t) {
		text, err := tmpl.YAML()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-18s %6d bytes, %3d resources", tmpl.Name, len(text), len(tmpl.Resources))
		if len(text) >= infra.MaxBytes || len(tmpl.Resources) >= infra.MaxResources {
			t.Errorf("%s has %d bytes and %d resources, must be below %d and %d", tmpl.Name, len(text), len(tmpl.Resources), infra.MaxBytes, infra.MaxResources)
		}
	}
}

// substitute replaces what CloudFormation would, with values of the right form.
func substitute(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case infra.Sub:
		return regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(string(v), "x")
	case infra.Ref:
		return map[infra.Ref]string{"DatabaseSecret": "postgres://fleet:x@db:5432/fleet"}[v]
	}
	return ""
}

// environOf is what a task of the stack is started with.
func environOf(t *testing.T, tmpl infra.Template) []string {
	t.Helper()
	task, ok := tmpl.Resource("TaskDefinition")
	if !ok {
		t.Fatalf("%s has no task definition", tmpl.Name)
	}
	container := task.Properties.Get("ContainerDefinitions").(infra.List)[0].(infra.Map)
	var environ []string
	for _, v := range container.Get("Environment").(infra.List) {
		entry := v.(infra.Map)
		environ = append(environ, entry.Get("Name").(string)+"="+substitute(entry.Get("Value")))
	}
	for _, v := range container.Get("Secrets").(infra.List) {
		if entry, plain := v.(infra.Map); plain {
			environ = append(environ, entry.Get("Name").(string)+"="+substitute(entry.Get("ValueFrom")))
		}
	}
	return environ
}

func TestAWorkerAcceptsTheEnvironmentOfItsTaskDefinition(t *testing.T) {
	for _, s := range workers.Stages {
		c, err := worker.ParseConfig(environOf(t, template(t, "stage-"+s.Name)), s.Name)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		want, err := workers.Stages.Settings(env, s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if c.Settings.Hash() != want.Hash() || c.Switch != "/stagefleet/prod/enabled" || c.HealthAddr == "" || !strings.HasPrefix(c.Blob, "s3://") {
			t.Errorf("%s: read %+v", s.Name, c)
		}
	}
}

func TestNoSecretIsAPlainVariable(t *testing.T) {
	for _, tmpl := range templates(t) {
		if _, ok := tmpl.Resource("TaskDefinition"); !ok {
			continue
		}
		for _, e := range environOf(t, tmpl) {
			name, value, _ := strings.Cut(e, "=")
			if strings.Contains(name, "KEY") && value != "" {
				t.Errorf("%s: %s has a plain value", tmpl.Name, name)
			}
		}
	}
}

func TestTheDashboardIsJSONWithTheAlarmsThresholds(t *testing.T) {
	board, _ := template(t, "shared").Resource("Dashboard")
	body := string(board.Properties.Get("DashboardBody").(infra.Sub))
	var parsed struct {
		Widgets []struct {
			Properties struct {
				Title       string
				Annotations struct {
					Horizontal []struct {
						Label string
						Value float64
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &parsed); err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, w := range parsed.Widgets {
		name, _, _ := strings.Cut(w.Properties.Title, ":")
		for _, line := range w.Properties.Annotations.Horizontal {
			shown[name+" "+line.Label] = line.Value
		}
	}
	for _, s := range workers.Stages {
		for _, a := range s.Alarms() {
			if slices.Contains([]string{stage.AlarmDLQ, stage.AlarmDepth, stage.AlarmAge}, a.Name) && shown[s.Name+" "+a.Name] != a.Threshold {
				t.Errorf("%s: %s is drawn at %v, the alarm's threshold is %v", s.Name, a.Name, shown[s.Name+" "+a.Name], a.Threshold)
			}
		}
	}
	if want := 6*len(workers.Stages) + 3; len(parsed.Widgets) != want {
		t.Errorf("%d widgets, want %d", len(parsed.Widgets), want)
	}
}

func TestAChangedFolderIsFoundAndMended(t *testing.T) {
	dir, files := t.TempDir(), generate(t)
	changed, err := infra.Write(dir, files)
	if err != nil || len(changed) != len(files) {
		t.Fatalf("wrote %d files: %v", len(changed), err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	queues, err := os.ReadFile(filepath.Join(dir, "queues.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write("queues.yaml", strings.Replace(string(queues), "maxReceiveCount: 3", "maxReceiveCount: 30", 1))
	write("stage-gone.yaml", "# Generated by `fleet generate` from workers/stages.go. Do not edit.\n")
	write("notes.txt", "mine")
	if err := os.Remove(filepath.Join(dir, "server.yaml")); err != nil {
		t.Fatal(err)
	}
	drifts, err := infra.Compare(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	report := fmt.Sprint(drifts)
	for _, want := range []string{"maxReceiveCount: 30", "stage-gone.yaml: generated earlier", "server.yaml: missing"} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is missing in %s", want, report)
		}
	}
	if len(drifts) != 3 {
		t.Errorf("%d drifts, want 3: %s", len(drifts), report)
	}
	if changed, err = infra.Write(dir, files); err != nil || len(changed) != 3 {
		t.Errorf("mended %v: %v", changed, err)
	}
	if drifts, err = infra.Compare(dir, files); err != nil || len(drifts) != 0 {
		t.Errorf("still different: %v, %v", drifts, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Errorf("a file of somebody else is gone: %v", err)
	}
}

// TestWhatOutlivesItsStackDoesNotOutliveAFirstCreationThatFails: its name would be taken when the stack is made again.
func TestWhatOutlivesItsStackDoesNotOutliveAFirstCreationThatFails(t *testing.T) {
	kept := 0
	for _, f := range generate(t) {
		if filepath.Ext(f.Name) != ".yaml" {
			continue
		}
		text := string(f.Text)
		if strings.Contains(text, "DeletionPolicy: Retain\n") {
			t.Errorf("%s keeps what a failed creation has left", f.Name)
		}
		n := strings.Count(text, "DeletionPolicy: RetainExceptOnCreate\n")
		if n != strings.Count(text, "UpdateReplacePolicy: Retain\n") {
			t.Errorf("%s: not everything that is kept when the stack goes is kept when it is replaced", f.Name)
		}
		kept += n
	}
	if kept < 20 {
		t.Errorf("only %d resources are kept", kept)
	}
}
