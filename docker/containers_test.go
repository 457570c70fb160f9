//go:build containers

package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/moby/moby/client"

	"github.com/stagefleet/stagefleet/demo/sample"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/workers"
)

// fleet is the one that all tests share; each leaves it whole.
var fleet *composed

func TestMain(m *testing.M) { os.Exit(all(m)) }

func all(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	// Nothing is pulled, and this process removes what it has made.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		panic(err)
	}
	var err error
	if fleet, err = readCompose(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := fleet.down(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	if err := fleet.up(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func asked(t *testing.T) *api.Client {
	t.Helper()
	addr, err := fleet.addr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return api.NewClient(addr).WithKey(fleet.key)
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
	j, err := asked(t).Submit(t.Context(), api.Request{Name: "talk.mp4", Target: target}, file)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// reaches watches a job until it satisfies, or fails the test when it has ended or five minutes have passed.
func reaches(t *testing.T, id string, satisfies func(job.Job) bool) job.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		j, err := asked(t).Job(ctx, id)
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

// counted fails the test if any execution but a successful one has counted as an attempt.
func counted(t *testing.T, j job.Job) {
	t.Helper()
	for _, s := range j.Steps {
		if s.Attempts != 1 {
			t.Errorf("%s: %d attempts, executions %+v", s.Stage, s.Attempts, s.History)
		}
	}
}

// daemon is the client for what testcontainers has no words for.
func daemon(t *testing.T) client.APIClient {
	t.Helper()
	p, err := testcontainers.NewDockerProvider()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p.Client()
}

func TestARecordingGoesThroughEveryStageInContainers(t *testing.T) {
	j := reaches(t, submit(t, "whole").ID, completed)
	for _, s := range workers.Stages {
		if !slices.ContainsFunc(j.Steps, func(step job.Step) bool { return step.Stage == s.Name && step.State == job.Completed }) {
			t.Errorf("%s had no part in it: %+v", s.Name, j.Steps)
		}
	}
	counted(t, j)
}

func TestAStoppedWorkerDrainsAndItsWorkGoesOn(t *testing.T) {
	j := submit(t, "stopped")
	reaches(t, j.ID, works("transcribe"))
	ctr := fleet.running["transcribe"][0]
	limit := fleet.services["transcribe"].StopGrace
	start := time.Now()
	if err := ctr.Stop(t.Context(), &limit); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > limit {
		t.Errorf("killed after %v", took)
	} else {
		t.Logf("drained in %v", took.Round(100*time.Millisecond))
	}
	if state, err := ctr.State(t.Context()); err != nil || state.ExitCode != 0 {
		t.Errorf("exit %+v after a stop, %v", state, err)
	}
	if err := ctr.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted(t, reaches(t, j.ID, completed))
}

func TestAFrozenWorkerLosesItsWorkToAnotherAndSpoilsNothing(t *testing.T) {
	j := submit(t, "frozen")
	reaches(t, j.ID, works("transcribe"))
	frozen, docker := fleet.running["transcribe"][0], daemon(t)
	if _, err := docker.ContainerPause(t.Context(), frozen.ID, client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	thaw := sync.OnceValue(func() error {
		_, err := docker.ContainerUnpause(context.WithoutCancel(t.Context()), frozen.ID, client.ContainerUnpauseOptions{})
		return err
	})
	defer func() { _ = thaw() }()
	if _, err := fleet.start(t.Context(), "transcribe"); err != nil {
		t.Fatal(err)
	}
	done := reaches(t, j.ID, completed)
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	for _, s := range done.Steps {
		if s.Stage == "transcribe" && (s.Attempts != 1 || len(s.History) != 2) {
			t.Errorf("attempts %d, executions %+v", s.Attempts, s.History)
		}
	}
	reaches(t, submit(t, "after the thaw").ID, completed)
	if j := reaches(t, j.ID, completed); j.Result == nil || done.Result == nil || *j.Result != *done.Result {
		t.Errorf("the thawed worker has changed the result: %+v, was %+v", j.Result, done.Result)
	}
}

func TestARestartOfTheDatabaseUnderLoadLosesNothing(t *testing.T) {
	var ids []string
	for i := range 3 {
		ids = append(ids, submit(t, fmt.Sprintf("load %d", i)).ID)
	}
	reaches(t, ids[0], works("transcribe"))
	postgres, limit := fleet.running["postgres"][0], 30*time.Second
	if err := postgres.Stop(t.Context(), &limit); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		reaches(t, id, completed)
	}
}
