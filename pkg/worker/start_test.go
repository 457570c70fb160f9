package worker_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func TestAWorkerSaysWhyItDoesNotStart(t *testing.T) {
	s := newScene(t)
	cases := []struct {
		env  string
		code int
		says string
	}{
		{"FLEET_COLOUR=red", worker.ExitConfig, "worker cut: FLEET_COLOUR is set, but there is no such setting"},
		{"FLEET_LOG_LEVEL=loud", worker.ExitConfig, `worker cut: FLEET_LOG_LEVEL is "loud", must be`},
		{"FLEET_DATABASE_URL=sqlite:/nowhere/fleet.db", worker.ExitStart, "open the record"},
		{"AWS_ENDPOINT_URL_SQS=http://127.0.0.1:1", worker.ExitStart, "find queue"},
	}
	for _, c := range cases {
		p := s.start(c.env)
		if code := p.code(); code != c.code || !strings.Contains(p.output.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in:\n%s", c.env, code, c.code, c.says, p.output)
		}
	}
}

func TestAWorkerAnswersHealthChecks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := newScene(t)
	s.start(worker.EnvHealthAddr + "=" + addr)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body) + fmt.Sprint(errors.Unwrap(err))
	}
	s.until("the worker is ready", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
	if code, body := get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, "stagefleet_breaker_state") || !strings.Contains(body, "process_cpu_seconds_total") || !strings.Contains(body, "fleet_db_transaction_seconds") {
		t.Errorf("metrics: %d %.300s", code, body)
	}
	s.until("the worker is listed", func() bool {
		list, err := s.record.Workers(t.Context(), time.Minute)
		return err == nil && len(list) == 1 && list[0].Stage == "cut" && list[0].Breaker == "closed"
	})
}

func TestTheKillSwitchIsAskedBeforeTheFirstReceive(t *testing.T) {
	s := newScene(t)
	parameters := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"Parameter":{"Name":"/stagefleet/test/enabled","Value":"{\"stages\":{\"cut\":false}}"}}`)
	}))
	t.Cleanup(parameters.Close)
	id := s.submit("done")
	s.start(worker.EnvSwitch+"=/stagefleet/test/enabled", "AWS_ENDPOINT_URL_SSM="+parameters.URL)
	s.until("the worker says that it is paused", func() bool {
		list, err := s.record.Workers(t.Context(), time.Minute)
		return err == nil && len(list) == 1 && list[0].Paused
	})
	if j := s.job(id); j.State != job.Queued {
		t.Errorf("job %s, want queued", j.State)
	}
}
