package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

// visibility is that of the queue: longer than any measurement.
const visibility = "120"

// beatCall is the call of which the entries and the size are noted: all of a beat, where nothing is hidden for a while.
const beatCall = "ChangeMessageVisibilityBatch"

// serverChild is one queue behind a port, with a count of the calls it got.
type serverChild struct {
	queues  *localsqs.Server
	client  *sqs.Client
	queue   string
	latency time.Duration

	mu      sync.Mutex
	calls   map[string]int
	beaten  int // entries of the beat's calls
	largest int // of the beat's requests, in bytes
}

// serveChild is the body of the server process. It ends with its parent's pipe.
func serveChild(latency time.Duration) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	queues := localsqs.New(localsqs.Options{})
	s := &serverChild{queues: queues, client: sqsclient.New(queues), calls: map[string]int{}, latency: latency}
	out, err := s.client.CreateQueue(context.Background(), &sqs.CreateQueueInput{QueueName: aws.String("q"), Attributes: map[string]string{"VisibilityTimeout": visibility}})
	if err != nil {
		return err
	}
	s.queue = *out.QueueUrl
	mux := http.NewServeMux()
	mux.HandleFunc("/bench/fill", s.fill)
	mux.HandleFunc("/bench/drained", s.drained)
	mux.HandleFunc("/bench/counts", s.count)
	mux.HandleFunc("/", s.serve)
	fmt.Println(listener.Addr())
	return http.Serve(listener, mux)
}

func (s *serverChild) serve(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	entries, size := 0, 0
	if op == beatCall {
		body := must(io.ReadAll(r.Body))
		entries, size = bytes.Count(body, []byte(`"ReceiptHandle"`)), len(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	s.mu.Lock()
	s.calls[op]++
	s.beaten, s.largest = s.beaten+entries, max(s.largest, size)
	s.mu.Unlock()
	time.Sleep(s.latency)
	s.queues.ServeHTTP(w, r)
}

func (s *serverChild) fill(_ http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	body := strings.Repeat("x", must(strconv.Atoi(r.FormValue("bytes"))))
	for i := 0; i < n; i += 10 {
		in := &sqs.SendMessageBatchInput{QueueUrl: &s.queue}
		for j := i; j < min(i+10, n); j++ {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(j)), MessageBody: &body})
		}
		must(s.client.SendMessageBatch(r.Context(), in))
	}
}

// drained answers once the queue is empty.
func (s *serverChild) drained(_ http.ResponseWriter, r *http.Request) {
	for {
		visible, hidden := s.depth(r.Context())
		if visible+hidden == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *serverChild) depth(ctx context.Context) (visible, hidden int) {
	out := must(s.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &s.queue, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}}))
	return must(strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"])), must(strconv.Atoi(out.Attributes["ApproximateNumberOfMessagesNotVisible"]))
}

// counts is what the server saw.
type counts struct {
	Calls   map[string]int
	Beaten  int // entries of the beat's calls
	Largest int // of the beat's requests, in bytes
	Visible int
	Hidden  int
	CPU     float64 // seconds of the server's process so far
}

func (s *serverChild) count(w http.ResponseWriter, r *http.Request) {
	visible, hidden := s.depth(r.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(counts{s.calls, s.beaten, s.largest, visible, hidden, usage().cpu})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// server is a running server process.
type server struct {
	url string
	cmd *exec.Cmd
}

func startServer(ctx context.Context, latency time.Duration) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", "-latency", latency.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("wait for the server: %w", err)
	}
	return &server{"http://" + strings.TrimSpace(addr), cmd}, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) get(path string, into any) error {
	resp, err := http.Get(s.url + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", path, resp.StatusCode)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func (s *server) fill(n, bytes int) error {
	return s.get(fmt.Sprintf("/bench/fill?n=%d&bytes=%d", n, bytes), nil)
}

func (s *server) counts() (c counts, err error) {
	return c, s.get("/bench/counts", &c)
}
