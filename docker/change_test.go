//go:build containers

package docker_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/workers"
)

// record is the environment of a task that has the record alone, as the migration's on ECS.
func record() map[string]string {
	return map[string]string{"FLEET_DATABASE_URL": fleet.services["migrate"].Environment["FLEET_DATABASE_URL"]}
}

// secretIn finds the key that a command shows.
func secretIn(t *testing.T, said string) string {
	t.Helper()
	for word := range strings.FieldsSeq(said) {
		if strings.HasPrefix(word, "fleet_") {
			return word
		}
	}
	t.Fatalf("no key in: %s", said)
	return ""
}

func TestAKeyMadeInATaskOfItsOwnSubmitsFromElsewhere(t *testing.T) {
	path, err := talk()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := fleet.once(t.Context(), record(), []string{"migrate"}); err != nil || !strings.Contains(out, "up to date") {
		t.Fatalf("migrate: %s, %v", out, err)
	}
	said, err := fleet.once(t.Context(), record(), []string{"keys", "first", "--lifetime", "24h"})
	if err != nil {
		t.Fatal(err)
	}
	key := secretIn(t, said)
	defer func() { // it has taken the place of the one that the other tests have
		out, err := fleet.once(context.WithoutCancel(t.Context()), record(), []string{"keys", "first"})
		if err != nil {
			t.Fatal(err)
		}
		fleet.key = secretIn(t, out)
	}()
	elsewhere := map[string]string{"FLEET_ADDR": "http://server:8080", "FLEET_KEY": key}
	recording := testcontainers.WithFiles(testcontainers.ContainerFile{HostFilePath: path, ContainerFilePath: "/tmp/talk.mp4", FileMode: 0o444})
	out, err := fleet.once(t.Context(), elsewhere, []string{"submit", "/tmp/talk.mp4", "--target", "elsewhere", "--wait"}, recording)
	if err != nil || !strings.Contains(out, "completed") {
		t.Errorf("submit: %s, %v", out, err)
	}
	for _, env := range []map[string]string{{"FLEET_ADDR": "http://server:8080"}, {"FLEET_ADDR": "http://server:8080", "FLEET_KEY": fleet.key}} {
		if out, err := fleet.once(t.Context(), env, []string{"jobs"}); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("without a key, or with one that was replaced: %s, %v", out, err)
		}
	}
}

func TestTheAPIIsClosedToWhoHasNoKey(t *testing.T) {
	addr, err := fleet.addr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + addr + "/v1/jobs") //nolint:noctx // short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s: %s", answer.Status, text)
	}
}

// replaced starts a new container of a service and then stops the old one, as ECS does in a deployment.
func replaced(t *testing.T, name string) {
	t.Helper()
	old := fleet.running[name][0]
	if _, err := fleet.start(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if name == "server" {
		if err := fleet.answers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	limit := max(fleet.services[name].StopGrace, 30*time.Second)
	if err := old.Stop(t.Context(), &limit); err != nil {
		t.Fatal(err)
	}
	if state, err := old.State(t.Context()); err != nil || state.ExitCode != 0 {
		t.Errorf("the old %s: %+v, %v", name, state, err)
	}
}

func TestAnUpgradeWithRunningWorkLosesAndCountsNothing(t *testing.T) {
	var ids []string
	for _, target := range []string{"upgraded a", "upgraded b"} {
		ids = append(ids, submit(t, target).ID)
	}
	reaches(t, ids[0], works("transcribe"))
	if _, err := fleet.once(t.Context(), record(), []string{"migrate"}); err != nil {
		t.Fatal(err)
	}
	replaced(t, "server")
	for _, s := range workers.Stages {
		replaced(t, s.Name)
	}
	for _, id := range ids {
		counted(t, reaches(t, id, completed))
	}
}

// sql is a shell command in the database's container; its arguments are the words after it.
func sql(t *testing.T, script string) string {
	t.Helper()
	return in(t, fleet.running["postgres"][0], "sh", "-ec", `export PATH=$PATH:/usr/lib/postgresql/bin PGUSER=fleet PGHOST=127.0.0.1 PGPASSWORD=$POSTGRES_PASSWORD; `+script)
}

// TestTheRecordGoesBackInTimeAgainstLiveQueues follows the page that tells how: switch off, restore, start, resume.
func TestTheRecordGoesBackInTimeAgainstLiveQueues(t *testing.T) {
	known := submit(t, "restored")
	reaches(t, known.ID, works("transcribe"))
	sql(t, "pg_dump -Fc -f /var/lib/postgresql/data/before fleet")
	done := reaches(t, known.ID, completed) // in the hours that will be lost

	if _, err := asked(t).Pause(t.Context(), api.PauseOrder{Stage: "all", Reason: "restore"}); err != nil {
		t.Fatal(err)
	}
	halt := []string{"server"}
	for _, s := range workers.Stages {
		halt = append(halt, s.Name) // here in the place of the kill switch, which containers do not have
		stop(t, s.Name)
	}
	lost := submit(t, "lost")
	waits(t, "ingest")
	stop(t, "server")
	sql(t, `psql -q -d postgres -c 'ALTER DATABASE fleet RENAME TO lost' -c 'CREATE DATABASE fleet'; pg_restore -d fleet /var/lib/postgresql/data/before`)
	for _, name := range halt {
		if err := fleet.running[name][0].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := fleet.answers(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The restored record does not know of the pause; lifting it is no mistake.
	if _, err := asked(t).Resume(t.Context(), "all"); err != nil {
		t.Errorf("resume: %v", err)
	}

	again := reaches(t, known.ID, completed)
	if again.Result == nil || done.Result == nil {
		t.Errorf("result %+v, was %+v", again.Result, done.Result)
	}
	for _, s := range again.Steps {
		if s.Attempts != 1 {
			t.Errorf("%s: %d attempts, executions %+v", s.Stage, s.Attempts, s.History)
		}
	}
	if j, err := asked(t).Job(t.Context(), lost.ID); err == nil {
		t.Errorf("a job of the lost hours is known: %+v", j)
	}
	letter := unknownLetter(t)
	if _, err := asked(t).Discard(t.Context(), letter.ID, "restored"); err != nil {
		t.Errorf("discard what is nobody's work: %v", err)
	}
	reaches(t, submit(t, "lost").ID, completed)
}

func stop(t *testing.T, name string) {
	t.Helper()
	limit := max(fleet.services[name].StopGrace, 30*time.Second)
	if err := fleet.running[name][0].Stop(t.Context(), &limit); err != nil {
		t.Fatal(err)
	}
}

// waits returns when a message waits in the queue of a stage.
func waits(t *testing.T, name string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; <-time.After(200 * time.Millisecond) {
		stages, err := asked(t).Stages(t.Context())
		if i := slices.IndexFunc(stages, func(s admin.Stage) bool { return s.Name == name }); err == nil && i >= 0 && stages[i].Visible > 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("no message waits for %s: %+v, %v", name, stages, err)
		}
	}
}

// unknownLetter is the dead letter that the record does not know.
func unknownLetter(t *testing.T) admin.Letter {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; <-time.After(time.Second) {
		page, err := asked(t).Dead(t.Context(), job.DeadFilter{})
		if err == nil && len(page.Unknown) == 1 {
			return page.Unknown[0]
		}
		if time.Now().After(limit) {
			t.Fatalf("no letter, or more than one: %+v, %v", page, err)
		}
	}
}
