// Package sqsclient gives a ready SQS client for a localsqs server over an in-process transport: no sockets, no
// goroutines, so it works inside testing/synctest bubbles. A call whose context ends returns at once, and whatever it
// would have received goes back to its queue. A test's own SQS:
//
//	server := localsqs.New(localsqs.Options{})
//	defer server.Close()
//	client := sqsclient.New(server)
//	queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("jobs")})
//	_, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String("hello")})
//
// In a bubble, make the server and the client inside it, and close the server before the bubble ends:
//
//	synctest.Test(t, func(t *testing.T) {
//		server := localsqs.New(localsqs.Options{})
//		defer server.Close()
//		client := sqsclient.New(server)
//		// thirty seconds of visibility timeout now pass in no time, and end to the nanosecond
//	})
package sqsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

// Endpoint is the base of the queue URLs that clients of New see. Nothing listens there.
const Endpoint = "http://sqs.local"

// New returns a client of the server. Its requests are signed with fixed credentials unless an option sets others.
func New(server *localsqs.Server, optFns ...func(*sqs.Options)) *sqs.Client {
	return sqs.New(sqs.Options{
		Region:       server.Region(),
		BaseEndpoint: aws.String(Endpoint),
		Credentials:  aws.CredentialsProviderFunc(fixedCredentials),
		HTTPClient:   Transport{server},
	}, optFns...)
}

func fixedCredentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local", Source: "sqsclient"}, nil
}

// Transport carries HTTP requests to a handler by calling it. It can stand in for an http.Client or a RoundTripper.
type Transport struct{ Handler http.Handler }

// Do serves the request in the caller's goroutine. The handler gets its own copy of the body.
func (t Transport) Do(r *http.Request) (resp *http.Response, err error) {
	in, err := incoming(r)
	if err != nil {
		return nil, err
	}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // what a real server turns into a broken connection
			resp, err = nil, io.ErrUnexpectedEOF
		default:
			panic(p)
		}
	}()
	w := &reply{header: http.Header{}}
	t.Handler.ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil && w.status == 0 {
		return nil, err
	}
	return w.response(r), nil
}

// reply collects what a handler answers.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *reply) Header() http.Header { return w.header }

func (w *reply) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *reply) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *reply) response(r *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	w.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.Do(r) }

// incoming turns an outgoing request into one as a server would see it.
func incoming(r *http.Request) (*http.Request, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, fmt.Errorf("read request body: %w", err)
		}
	}
	in := r.Clone(r.Context())
	in.Body = io.NopCloser(bytes.NewReader(body))
	in.ContentLength = int64(len(body))
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	return in, nil
}
