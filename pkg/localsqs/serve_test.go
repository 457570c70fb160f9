package localsqs_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

func metricsOf(t *testing.T, server *localsqs.Server) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(server)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestMetricsTellStatesFlowsAndErrors(t *testing.T) {
	bubble(t, localsqs.Options{}, func(t *testing.T, server *localsqs.Server, client *sqs.Client, url *string) {
		for range 3 {
			if err := sendOne(client, url); err != nil {
				t.Fatal(err)
			}
		}
		must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url}))
		settle(7 * time.Second)
		_, _ = client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("none")})
		post(t, server, "ListQueues", "{}")
		raw(server, "POST", jsonType, "AmazonSQS.Invented", "{}")
		got := metricsOf(t, server)
		for _, line := range []string{
			`localsqs_messages{queue="q",state="visible"} 2`, `localsqs_messages{queue="q",state="in_flight"} 1`, `localsqs_oldest_message_age_seconds{queue="q"} 7`,
			`localsqs_queue_messages_total{event="sent",queue="q"} 3`, `localsqs_queue_messages_total{event="received",queue="q"} 1`,
			`localsqs_requests_total{action="SendMessage",code="OK"} 3`, `localsqs_requests_total{action="GetQueueUrl",code="QueueDoesNotExist"} 1`,
			`localsqs_requests_total{action="unknown",code="UnknownOperationException"} 1`,
		} {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("no %s in\n%s", line, got)
			}
		}
	})
}

func TestMetricsAreWellFormed(t *testing.T) {
	server := newServer(t, localsqs.Options{})
	post(t, server, "CreateQueue", `{"QueueName":"q"}`)
	if problems, err := testutil.CollectAndLint(server); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestServeStopsGracefullyAndKeepsItsState(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- localsqs.Serve(ctx, localsqs.ServeConfig{Addr: "127.0.0.1:0", Dir: dir, Ready: func(a net.Addr) { ready <- a }})
	}()
	base := "http://" + (<-ready).String()
	transport := awshttp.Transport()
	defer transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	client := sqsclient.New(newServer(t, localsqs.Options{}), func(o *sqs.Options) { o.BaseEndpoint, o.HTTPClient = &base, doer{transport} })
	url, idle := create(t, client, "q", nil), create(t, client, "idle", nil)
	if err := sendOne(client, url); err != nil {
		t.Fatal(err)
	}
	resp := must[*http.Response](t)((&http.Client{Transport: transport}).Get(base + "/metrics"))
	if page := must[[]byte](t)(io.ReadAll(resp.Body)); !strings.Contains(string(page), "localsqs_messages") {
		t.Errorf("metrics are %s", page)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	polled := make(chan error, 1)
	go func() {
		_, err := client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: idle, WaitTimeSeconds: 20})
		polled <- err
	}()
	time.AfterFunc(100*time.Millisecond, stop)
	if err := <-polled; err != nil {
		t.Errorf("the poll that waited ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := depth(t, sqsclient.New(open(t, dir)), url); n != "1" {
		t.Errorf("%s messages are left", n)
	}
}

func TestServeRefusesWhatCannotWork(t *testing.T) {
	for name, cfg := range map[string]localsqs.ServeConfig{
		"address": {Addr: "nowhere:x"}, "port": {Addr: "127.0.0.1:70000"}, "address without a port": {Addr: "127.0.0.1"}, "limit": {Options: localsqs.Options{InFlightLimit: -1}}, "directory": {Dir: "/dev/null/x"},
		"faults": {Dir: t.TempDir(), Options: localsqs.Options{Faults: localsqs.Faults{Rules: []localsqs.Fault{{}}}}},
	} {
		if err := localsqs.Serve(t.Context(), cfg); err == nil {
			t.Errorf("a bad %s was accepted", name)
		}
	}
}
