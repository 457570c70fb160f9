package worker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheHealthCommandTellsALivingWorkerFromOneThatIsNot(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("asked %s", r.URL.Path)
		}
		w.WriteHeader(status)
	}))
	addr := strings.TrimPrefix(server.URL, "http://")
	ask := func(addr string, want int, says string) {
		t.Helper()
		var stderr strings.Builder
		if code := askHealth(addr, &stderr); code != want || !strings.Contains(stderr.String(), says) {
			t.Errorf("exit %d, %q", code, stderr.String())
		}
	}
	ask(addr, ExitDone, "")
	status = http.StatusServiceUnavailable
	ask(addr, ExitBroken, "the worker answers 503")
	server.Close()
	ask(addr, ExitBroken, "the worker does not answer")
	ask("", ExitConfig, "FLEET_HEALTH_ADDR is not set")
}
