package localsqs_test

import (
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
	"github.com/stagefleet/stagefleet/pkg/internal/queuetest"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

func TestConformanceInBubbles(t *testing.T) {
	queuetest.Run(t, queuetest.Target{Bubble: true, Open: func(t *testing.T) *sqs.Client {
		server := newServer(t, localsqs.Options{})
		return sqsclient.New(server)
	}})
}

func TestConformanceOverASocket(t *testing.T) {
	if testing.Short() {
		t.Skip("waits in real time")
	}
	queuetest.Run(t, queuetest.Target{Longest: 10 * time.Second, Open: func(t *testing.T) *sqs.Client {
		return socketClient(t, newServer(t, localsqs.Options{}))
	}})
}

func newServer(t testing.TB, opts localsqs.Options) *localsqs.Server {
	server := localsqs.New(opts)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// socketClient serves the server on a loopback port, with the transport that production clients use.
func socketClient(t testing.TB, server *localsqs.Server) *sqs.Client {
	web := httptest.NewServer(server)
	transport := awshttp.Transport()
	t.Cleanup(func() {
		transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		web.Close()
	})
	return sqsclient.New(server, func(o *sqs.Options) {
		o.BaseEndpoint = &web.URL
		o.HTTPClient = doer{transport}
	})
}
