package awshttp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slowBody is a request body whose end comes late, as it does for the SDK's when the processor is busy: it gives all its
// bytes, then its end only once the body has been closed. Reading after the close fails, as the SDK's body does.
type slowBody struct {
	bytes  *strings.Reader
	closed chan struct{}
	once   sync.Once
}

func newSlowBody(text string) *slowBody {
	return &slowBody{bytes: strings.NewReader(text), closed: make(chan struct{})}
}

var errClosedBody = errors.New("read of a closed body")

func (b *slowBody) Read(p []byte) (int, error) {
	if n, err := b.bytes.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-b.closed:
		return 0, errClosedBody
	case <-time.After(20 * time.Millisecond): // nobody closes it early: an ordinary end
		return 0, io.EOF
	}
}

func (b *slowBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// exchange does what the SDK does: it closes the request's body as soon as the round trip returns, and then reads the
// reply.
func exchange(t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	const text = `{"QueueUrl":"q"}`
	body := newSlowBody(text)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(text))
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := body.Close(); err != nil {
		return err
	}
	reply, err := io.ReadAll(resp.Body)
	if err == nil && len(reply) != replySize {
		err = io.ErrUnexpectedEOF
	}
	return err
}

const replySize = 1 << 20

// fastServer replies as soon as it has the bytes that it was promised.
func fastServer(t *testing.T) *httptest.Server {
	reply := bytes.Repeat([]byte("x"), replySize)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, r.ContentLength))
		_, _ = w.Write(reply)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestClosingTheBodyBreaksTheReplyOfAnOrdinaryTransport(t *testing.T) {
	server := fastServer(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range 50 {
		if err := exchange(t, transport, server.URL); err != nil {
			t.Logf("the fault: %v", err)
			return
		}
	}
	t.Error("the fault did not show: either net/http or this test has changed")
}

func TestOwnBodyKeepsTheReplyWhole(t *testing.T) {
	server := fastServer(t)
	transport := awshttp.Transport()
	defer transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	for range 20 {
		if err := exchange(t, transport, server.URL); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManyConnectionsToOneHostAreKept(t *testing.T) {
	var mu sync.Mutex
	opened := 0
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			opened++
			mu.Unlock()
		}
	}
	server.Start()
	defer server.Close()
	transport := awshttp.Transport()
	defer transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	const parallel = 64
	for range 3 {
		var all sync.WaitGroup
		for range parallel {
			all.Go(func() {
				resp, err := (&http.Client{Transport: transport}).Post(server.URL, "text/plain", strings.NewReader("x"))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		for range parallel {
			release <- struct{}{}
		}
		all.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	if opened > parallel+parallel/2 {
		t.Errorf("%d connections for %d callers", opened, parallel)
	}
}

func TestBodyErrorsReachTheCaller(t *testing.T) {
	body := newSlowBody("")
	_ = body.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/", body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := awshttp.Transport().RoundTrip(r); !errors.Is(err, errClosedBody) {
		t.Errorf("got %v", err)
	}
}

func TestRequestsArriveWholeWhateverTheirPromise(t *testing.T) {
	const text = `{"QueueUrl":"q"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	transport := awshttp.Transport()
	defer transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	for name, promise := range map[string]int64{"its length": int64(len(text)), "none": -1, "more than there is": 1 << 20, "more than may be set aside": 1 << 40} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.NopCloser(strings.NewReader(text)))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = promise
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(got) != text {
			t.Errorf("%s: %q arrived, %v", name, got, err)
		}
		if r.ContentLength != promise || r.Body == nil {
			t.Errorf("%s: the caller's request was changed", name)
		}
	}
}
