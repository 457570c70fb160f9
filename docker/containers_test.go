//go:build containers

// Package docker_test runs the whole fleet in containers, from the images and the compose file of this folder, and does to
// it what only containers show: a frozen worker, a stop by the container runtime, a database that restarts. It needs
// Docker and the images (docker/images.sh); scripts/containers.sh provides both.
package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/demo/sample"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/workers"
)

const (
	addr    = "127.0.0.1:58080"
	project = "stagefleet-test"
)

// run runs a program; its output is for whoever reads a failure.
func run(ctx context.Context, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "FLEET_ADDR="+addr)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, out.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// compose runs Docker Compose, in whichever of its two forms is installed.
func compose(ctx context.Context, words ...string) (string, error) {
	tool := []string{"docker", "compose"}
	if _, err := run(ctx, "docker", "compose", "version"); err != nil {
		tool = []string{"docker-compose"}
	}
	return run(ctx, slices.Concat(tool, []string{"-p", project, "-f", "compose.yaml"}, words)...)
}

func TestMain(m *testing.M) { os.Exit(all(m)) }

func all(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	down := func() {
		if _, err := compose(context.WithoutCancel(ctx), "down", "-v", "-t", "50"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	down() // what a killed run has left
	if _, err := compose(ctx, "up", "-d"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer down()
	for {
		err := api.NewClient(addr).Health(ctx)
		if err == nil {
			return m.Run()
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "the fleet does not come up:", err)
			return 1
		case <-time.After(time.Second):
		}
	}
}

// must runs a program that has to succeed.
func must(t *testing.T, words ...string) string {
	t.Helper()
	out, err := run(t.Context(), words...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// container is the first one of a service.
func container(t *testing.T, service string) string {
	t.Helper()
	out, err := compose(t.Context(), "ps", "-q", service)
	if err != nil || out == "" {
		t.Fatalf("no container of %s: %v", service, err)
	}
	return strings.Fields(out)[0]
}

var talk = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "talk-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "talk.mp4")
	_, err = sample.Generate(context.Background(), []sample.Turn{
		{Name: "John Carter", Title: "Planning Director", Voice: "rms", Words: "hello everybody my name is John Carter and today we discuss the river bridge"},
		{Name: "Mary Wilson", Title: "Chief Engineer", Voice: "slt", Words: "good evening my name is Mary Wilson and the water under the bridge is rising every winter"},
	}, file)
	return file, err
})

func submit(t *testing.T, target string) job.Job {
	t.Helper()
	path, err := talk()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	j, err := api.NewClient(addr).Submit(t.Context(), api.Request{Name: "talk.mp4", Target: target}, file)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// wait watches a job until it satisfies, or fails the test when it has ended or five minutes have passed.
func wait(t *testing.T, id string, satisfies func(job.Job) bool) job.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		j, err := api.NewClient(addr).Job(ctx, id)
		switch {
		case err == nil && satisfies(j):
			return j
		case err == nil && j.State.Ended():
			t.Fatalf("%s because of %+v, steps %+v", j.State, j.Reason, j.Steps)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s, steps %+v, %v", j.State, j.Steps, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func completed(j job.Job) bool { return j.State == job.Completed }

// works is true while the stage runs one of the job's steps.
func works(stage string) func(job.Job) bool {
	return func(j job.Job) bool {
		return slices.ContainsFunc(j.Steps, func(s job.Step) bool { return s.Stage == stage && s.State == job.Running })
	}
}

func TestARecordingGoesThroughEveryStageInContainers(t *testing.T) {
	j := wait(t, submit(t, "whole").ID, completed)
	for _, s := range workers.Stages {
		if !slices.ContainsFunc(j.Steps, func(step job.Step) bool { return step.Stage == s.Name && step.State == job.Completed }) {
			t.Errorf("%s had no part in it: %+v", s.Name, j.Steps)
		}
	}
}

func TestTheImagesSayThatTheyAreHealthy(t *testing.T) {
	for _, service := range []string{"highlight", "compile", "server"} {
		id := container(t, service)
		for limit := time.Now().Add(time.Minute); ; {
			state := must(t, "docker", "inspect", "-f", "{{.State.Health.Status}}", id)
			if state == "healthy" {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s is %s: %s", service, state, must(t, "docker", "inspect", "-f", "{{json .State.Health}}", id))
			}
			<-time.After(time.Second)
		}
	}
}

func TestAStoppedWorkerDrainsAndItsWorkGoesOn(t *testing.T) {
	j := submit(t, "stopped")
	wait(t, j.ID, works("transcribe"))
	id := container(t, "transcribe")
	limit := int(workers.Stages.Scaled(1)[1].Durations.StopTimeout.Seconds())
	start := time.Now()
	must(t, "docker", "stop", "-t", fmt.Sprint(limit), id)
	if took := time.Since(start); took > time.Duration(limit)*time.Second {
		t.Errorf("killed after %v", took)
	} else {
		t.Logf("drained in %v", took.Round(100*time.Millisecond))
	}
	if code := must(t, "docker", "inspect", "-f", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("exit %s after a stop", code)
	}
	must(t, "docker", "start", id)
	wait(t, j.ID, completed)
}

func TestAFrozenWorkerLosesItsWorkToAnotherAndSpoilsNothing(t *testing.T) {
	j := submit(t, "frozen")
	wait(t, j.ID, works("transcribe"))
	id := container(t, "transcribe")
	must(t, "docker", "pause", id)
	t.Cleanup(func() { _, _ = run(context.WithoutCancel(t.Context()), "docker", "unpause", id) })
	if _, err := compose(t.Context(), "up", "-d", "--no-recreate", "--scale", "transcribe=2", "transcribe"); err != nil {
		t.Fatal(err)
	}
	done := wait(t, j.ID, completed)
	must(t, "docker", "unpause", id)
	for _, s := range done.Steps {
		if s.Stage == "transcribe" && (s.Attempts != 1 || len(s.History) != 2) {
			t.Errorf("attempts %d, executions %+v", s.Attempts, s.History)
		}
	}
	wait(t, submit(t, "after the thaw").ID, completed)
	if j := wait(t, j.ID, completed); j.Result == nil || done.Result == nil || *j.Result != *done.Result {
		t.Errorf("the thawed worker has changed the result: %+v, was %+v", j.Result, done.Result)
	}
}

func TestARestartOfTheDatabaseUnderLoadLosesNothing(t *testing.T) {
	var ids []string
	for i := range 3 {
		ids = append(ids, submit(t, fmt.Sprintf("load %d", i)).ID)
	}
	wait(t, ids[0], works("transcribe"))
	must(t, "docker", "restart", "-t", "30", container(t, "postgres"))
	for _, id := range ids {
		wait(t, id, completed)
	}
}
