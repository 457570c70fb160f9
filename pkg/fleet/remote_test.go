package fleet

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// remote is a server whose queues are reached as AWS's are, by the environment.
func remote(t *testing.T) Remote {
	t.Helper()
	queues := localsqs.New(localsqs.Options{})
	endpoint := httptest.NewServer(queues)
	t.Cleanup(func() { _ = queues.Close(); endpoint.Close() })
	if err := admin.CreateQueues(t.Context(), sqsclient.New(queues), pipeline, "test"); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_SQS": endpoint.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	return Remote{Pipeline: pipeline, Env: "test", Addr: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(dir, "fleet.db"), Place: "file://" + dir, Log: io.Discard}
}

func TestTheServerAloneTakesWorkForWorkersElsewhere(t *testing.T) {
	r := remote(t)
	record, err := job.Open(t.Context(), r.Database, job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	r.Ready = func(a string) { addr <- a }
	go func() { ended <- r.Run(ctx) }()
	var base string
	select {
	case base = <-addr:
	case err := <-ended:
		t.Fatalf("Run: %v", err)
	}
	client := api.NewClient(base)
	defer client.Close()
	if _, err := client.Submit(t.Context(), api.Request{Name: "talk.mp4"}, strings.NewReader("bytes")); err != nil {
		t.Error(err)
	}
	eventually(t, "the relay has sent the first message", func() bool {
		stages, err := client.Stages(t.Context())
		return err == nil && stages[0].Visible == 1
	})
	response, err := http.Get("http://" + base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if !strings.Contains(string(text), "db_begin_wait_seconds") {
		t.Errorf("metrics without any of ours:\n%.300s", text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestTheServerAloneDoesNotMigrate(t *testing.T) {
	r := remote(t)
	if err := r.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Run without a record: %v", err)
	}
	if err := os.WriteFile(strings.TrimPrefix(r.Database, "sqlite:"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, job.ErrSchema) {
		t.Errorf("Run: %v", err)
	}
}

func TestAFleetWhoseManifestBreaksADeclaredCeilingDoesNotComeUp(t *testing.T) {
	above := stage.Pipeline{{Name: "ask", Summary: "ask a model", Profile: stage.Profile{Slots: 2, MaxTasks: 4, Ceiling: 7}}}
	none := t.TempDir()
	for name, run := range map[string]func() error{
		"fleet up": func() error {
			return Local{Pipeline: above, State: filepath.Join(none, "state"), Addr: "127.0.0.1:0", Tasks: map[string]int{"ask": 1}, Binaries: none, Out: io.Discard}.Run(t.Context())
		},
		"its server": func() error {
			return Serve(t.Context(), Server{Pipeline: above, Env: "test", Addr: "127.0.0.1:0", Place: "file://" + none})
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), "stage ask: Profile.Ceiling is 7, must be at least MaxTasks x Slots, 8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
