package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// receiver fails as often as it is told to.
type receiver struct {
	mu       sync.Mutex
	failures int
	reached  bool
	gone     bool
	got      []webhook.Event
	at       []time.Time
}

func (r *receiver) Send(_ context.Context, e webhook.Event) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got, r.at = append(r.got, e), append(r.at, time.Now())
	switch {
	case r.gone:
		return true, webhook.ErrGone
	case len(r.got) <= r.failures:
		return r.reached, errors.New("no")
	}
	return true, nil
}

// oneHook is a record with one report.
type oneHook struct {
	mu      sync.Mutex
	due     time.Time
	results []job.HookResult
}

func (o *oneHook) DueHooks(context.Context, int, []string) ([]job.DueHook, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.due.IsZero() || time.Now().Before(o.due) {
		return nil, nil
	}
	o.due = time.Now().Add(time.Minute)
	failures := 0
	if n := len(o.results); n > 0 {
		failures = o.results[n-1].Failures
	}
	return []job.DueHook{{ID: "w1", Tenant: "acme", URL: "https://example.org/", Body: []byte("{}"), Failures: failures}}, nil
}

func (o *oneHook) HookDone(_ context.Context, _ job.DueHook, r job.HookResult) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results = append(o.results, r)
	o.due = time.Time{}
	if r.Again > 0 {
		o.due = time.Now().Add(r.Again)
	}
	return nil
}

func (o *oneHook) HookSecrets(_ context.Context, _, fresh string) ([]string, error) {
	return []string{fresh}, nil
}

// reported runs the sender for four days of a bubble and returns what came of the report.
func reported(t *testing.T, to *receiver) []job.HookResult {
	t.Helper()
	var record oneHook
	synctest.Test(t, func(t *testing.T) {
		record.due = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- hooks{record: &record, to: to, log: zap.NewNop()}.run(ctx) }()
		<-time.After(5 * 24 * time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return record.results
}

func TestAReportIsSentUntilItIsAcknowledged(t *testing.T) {
	to := &receiver{failures: 3, reached: true}
	got := reported(t, to)
	want := []job.HookResult{
		{State: job.HookSent, Failures: 1, Again: 5 * time.Second}, {State: job.HookSent, Failures: 2, Again: 5 * time.Minute},
		{State: job.HookSent, Failures: 3, Again: 30 * time.Minute}, {State: job.HookAcknowledged, Failures: 3},
	}
	if len(got) != len(want) {
		t.Fatalf("results %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("result %d: %+v, want %+v", i, got[i], want[i])
		}
		if to.got[i].ID != "w1" || len(to.got[i].Secrets) != 1 {
			t.Errorf("sent %+v", to.got[i])
		}
	}
}

func TestAReceiverThatIsNeverReachedLeavesTheReportPendingUntilItIsGivenUp(t *testing.T) {
	got := reported(t, &receiver{failures: 1000})
	if len(got) != 10 {
		t.Fatalf("%d tries, want 10", len(got))
	}
	for i, r := range got {
		if want := map[bool]job.HookState{true: job.HookPending, false: job.HookGivenUp}[i < 9]; r.State != want {
			t.Errorf("after try %d it is %s, want %s", i+1, r.State, want)
		}
	}
}

func TestAReceiverThatWantsNoMoreIsLeftAlone(t *testing.T) {
	if got := reported(t, &receiver{gone: true}); len(got) != 1 || got[0].State != job.HookGivenUp || got[0].Again != 0 {
		t.Errorf("results %+v", got)
	}
}

func TestSecretsOfProvidersAreReadAndNeverShown(t *testing.T) {
	one, two := webhook.NewSecret().Text(), webhook.NewSecret().Text()
	got, err := ParseProviders("speech=" + one + ", speech=" + two + ",vision=" + one)
	if err != nil || len(got["speech"]) != 2 || len(got["vision"]) != 1 {
		t.Fatalf("read %v, %v", got, err)
	}
	if none, err := ParseProviders(""); err != nil || len(none) != 0 {
		t.Errorf("no text: %v, %v", none, err)
	}
	for _, bad := range []string{"speech", "speech=secretword", "=" + one, "Sp eech=" + one, "speech=" + one + ","} {
		if _, err := ParseProviders(bad); err == nil {
			t.Errorf("%q was read", bad)
		} else if text := err.Error(); len(text) > 200 || errors.Is(err, context.Canceled) {
			t.Errorf("%q: %s", bad, text)
		}
	}
}

func hooksOf(record *job.Store, client *webhook.Client) hooks {
	return hooks{record: record, to: client, log: zap.NewNop()}
}

func TestOnlyTheLocalOperatorsReportsGoToAddressesOfThisMachine(t *testing.T) {
	public, inside := &receiver{}, &receiver{}
	h := hooks{to: public, inside: inside}
	if h.sender("local") != hookSender(inside) || h.sender("acme") != hookSender(public) {
		t.Error("a tenant's webhooks reach what only this machine has")
	}
	if (hooks{to: public}).sender("local") != hookSender(public) {
		t.Error("a fleet that is not local calls addresses inside its network")
	}
}

func TestTheEndOfAJobReachesItsSubmitterSigned(t *testing.T) {
	record, err := job.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "record.db"), job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = record.Close() }()
	arrived := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		texts, err := record.HookSecrets(r.Context(), "acme", "")
		secret, parseErr := webhook.ParseSecret(texts[0])
		_, verifyErr := webhook.Verify(r.Header, []webhook.Secret{secret}, time.Now(), body)
		if err := errors.Join(err, parseErr, verifyErr); err != nil {
			t.Error(err)
		}
		arrived <- body
	}))
	defer server.Close()
	j, err := record.Submit(t.Context(), job.Submission{
		Tenant: "acme", Target: "talk", Digest: "d", Input: []byte("{}"), Webhook: server.URL,
		First: job.Route{Stage: "ingest", Queue: "q", DLQ: "d"},
	})
	if err == nil {
		err = record.Cancel(t.Context(), "acme", j.ID, "me", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	client := webhook.NewClient(true)
	defer client.Close()
	for _, due := range hooksOf(record, client).due(t.Context(), 1, nil) {
		hooksOf(record, client).send(t.Context(), due)
	}
	if body := string(<-arrived); !strings.Contains(body, `"job.cancelled"`) || !strings.Contains(body, j.ID) {
		t.Errorf("received %s", body)
	}
	if got, err := record.Hooks(t.Context(), "acme", j.ID); err != nil || len(got) != 1 || got[0].State != job.HookAcknowledged {
		t.Errorf("afterwards %+v, %v", got, err)
	}
}
