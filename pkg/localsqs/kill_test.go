package localsqs_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

// childVariable makes the test binary a server on the directory that it names.
const childVariable = "LOCALSQS_TEST_CHILD_DIR"

// child serves until it is killed.
func child(dir string) {
	err := localsqs.Serve(context.Background(), localsqs.ServeConfig{Addr: "127.0.0.1:0", Dir: dir, Ready: func(addr net.Addr) { fmt.Println(addr) }})
	fmt.Println("ended:", err)
	os.Exit(1)
}

// startChild returns a client of a server process, and the process.
func startChild(t *testing.T, dir string) (*sqs.Client, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(must[string](t)(os.Executable()))
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out := must[interface{ Read([]byte) (int, error) }](t)(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line := must[string](t)(bufio.NewReader(out).ReadString('\n'))
	transport := awshttp.Transport()
	t.Cleanup(transport.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	return sqsclient.New(newServer(t, localsqs.Options{}), func(o *sqs.Options) {
		o.BaseEndpoint = aws.String("http://" + strings.TrimSpace(line))
		o.HTTPClient = doer{transport}
		o.RetryMaxAttempts = 1
	}), cmd
}

// promises is what the server acknowledged before it died. A delete without a reply may or may not have happened.
type promises struct {
	mu      sync.Mutex
	sent    map[string]bool
	deleted map[string]bool
	unsure  map[string]bool
}

func TestWhatWasAcknowledgedSurvivesKillNine(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		client, cmd := startChild(t, dir)
		url := create(t, client, fmt.Sprint("round", round), map[string]string{"VisibilityTimeout": "1"})
		p := &promises{sent: map[string]bool{}, deleted: map[string]bool{}, unsure: map[string]bool{}}
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { p.send(client, url) })
			work.Go(func() { p.settle(client, url) })
		}
		time.AfterFunc(300*time.Millisecond, func() { _ = cmd.Process.Kill() })
		work.Wait()
		_ = cmd.Wait()
		p.check(t, dir, fmt.Sprint("round", round))
	}
}

func (p *promises) send(client *sqs.Client, url *string) {
	for {
		out, err := client.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")})
		if err != nil {
			return
		}
		p.mu.Lock()
		p.sent[*out.MessageId] = true
		p.mu.Unlock()
	}
}

func (p *promises) settle(client *sqs.Client, url *string) {
	for {
		out, err := client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 3, WaitTimeSeconds: 1})
		if err != nil {
			return
		}
		for _, m := range out.Messages[:min(2, len(out.Messages))] {
			_, err := client.DeleteMessage(context.Background(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
			p.mu.Lock()
			if err == nil {
				p.deleted[*m.MessageId] = true
			} else {
				p.unsure[*m.MessageId] = true
			}
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
}

// check receives everything that is left.
func (p *promises) check(t *testing.T, dir, name string) {
	t.Helper()
	server := open(t, dir)
	defer func() { _ = server.Close() }()
	client := sqsclient.New(server)
	url := must[*sqs.GetQueueUrlOutput](t)(client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})).QueueUrl
	left := map[string]bool{}
	for {
		got := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 600, WaitTimeSeconds: 2})).Messages
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			left[*m.MessageId] = true
		}
	}
	for id := range p.sent {
		if !left[id] && !p.deleted[id] && !p.unsure[id] {
			t.Errorf("message %s was acknowledged and is lost", id)
		}
	}
	for id := range p.deleted {
		if left[id] {
			t.Errorf("message %s was deleted and came back", id)
		}
	}
	if len(p.sent) == 0 || len(p.deleted) == 0 {
		t.Errorf("%d sent and %d deleted: the test shows nothing", len(p.sent), len(p.deleted))
	}
	t.Logf("%d sent, %d deleted, %d left", len(p.sent), len(p.deleted), len(left))
}
