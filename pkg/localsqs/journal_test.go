package localsqs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
)

func open(t testing.TB, dir string) *localsqs.Server {
	t.Helper()
	server, err := localsqs.Open(dir, localsqs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// crashed opens a copy of a running server's directory, as if the server had been killed now.
func crashed(t testing.TB, dir string) *localsqs.Server {
	t.Helper()
	again := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return open(t, again)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func create(t testing.TB, client *sqs.Client, name string, attrs map[string]string) *string {
	t.Helper()
	return must[*sqs.CreateQueueOutput](t)(client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attrs})).QueueUrl
}

// busy makes a server go through everything that its journal has a record for.
func busy(t testing.TB, client *sqs.Client) {
	ctx := t.Context()
	dlq := create(t, client, "dead.fifo", map[string]string{"FifoQueue": "true"})
	arn := must[*sqs.GetQueueAttributesOutput](t)(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: dlq, AttributeNames: []types.QueueAttributeName{"QueueArn"}})).Attributes["QueueArn"]
	work := create(t, client, "work.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true", "RedrivePolicy": `{"maxReceiveCount":1,"deadLetterTargetArn":"` + arn + `"}`})
	plain := create(t, client, "plain", nil)
	gone := create(t, client, "gone", nil)
	for i := range 6 {
		must[*sqs.SendMessageOutput](t)(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: work, MessageBody: aws.String(fmt.Sprint("w", i)), MessageGroupId: aws.String(fmt.Sprint("g", i%3))}))
		must[*sqs.SendMessageOutput](t)(client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: plain, MessageBody: aws.String(fmt.Sprint("p", i)), DelaySeconds: int32(i % 2 * 60),
			MessageAttributes:       map[string]types.MessageAttributeValue{"b": {DataType: aws.String("Binary"), BinaryValue: []byte{byte(i)}}},
			MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1")}},
		}))
	}
	receive := func(url *string, n int32) []types.Message {
		return must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: n})).Messages
	}
	change := func(url *string, m types.Message, seconds int32) {
		must[*sqs.ChangeMessageVisibilityOutput](t)(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds}))
	}
	got := receive(plain, 3)
	must[*sqs.DeleteMessageOutput](t)(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: plain, ReceiptHandle: got[0].ReceiptHandle}))
	change(plain, got[1], 600)
	change(plain, got[2], 0)
	change(work, receive(work, 1)[0], 0)
	must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: work, MaxNumberOfMessages: 1, ReceiveRequestAttemptId: aws.String("attempt")}))
	receive(work, 2) // moves the first to the dead-letter queue
	must[*sqs.StartMessageMoveTaskOutput](t)(client.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &arn, MaxNumberOfMessagesPerSecond: aws.Int32(1)}))
	must[*sqs.TagQueueOutput](t)(client.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: plain, Tags: map[string]string{"k": "v"}}))
	must[*sqs.DeleteQueueOutput](t)(client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: gone}))
	purged := create(t, client, "purged", nil)
	must[*sqs.SendMessageOutput](t)(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: purged, MessageBody: aws.String("x")}))
	must[*sqs.PurgeQueueOutput](t)(client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: purged}))
}

func TestKilledServerComesBackAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		server := open(t, dir)
		busy(t, sqsclient.New(server))
		settle(5 * time.Second)
		_, err := sqsclient.New(server).ListQueues(t.Context(), nil) // writes what the task did meanwhile
		if err != nil {
			t.Fatal(err)
		}
		again := crashed(t, dir)
		if want, got := server.Dump(), again.Dump(); got != want {
			t.Errorf("came back as\n%s\nwas\n%s", got, want)
		}
	})
}

func TestReceiptHandlesAndDeadlinesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := open(t, dir)
		client := sqsclient.New(first)
		url := create(t, client, "q", nil)
		for _, body := range []string{"a", "b"} {
			must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
		}
		held := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 2})).Messages
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		client = sqsclient.New(open(t, dir))
		must[*sqs.DeleteMessageOutput](t)(client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: held[0].ReceiptHandle}))
		start := time.Now()
		got := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}))
		if len(got.Messages) != 0 {
			t.Error("an in-flight message was visible after the restart")
		}
		got = must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20}))
		if waited := time.Since(start); len(got.Messages) != 1 || *got.Messages[0].Body != "b" || waited != 30*time.Second {
			t.Errorf("received %d after %v", len(got.Messages), waited)
		}
	})
}

func TestExpiredMessagesStayGoneWhenRetentionIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		server := open(t, dir)
		client := sqsclient.New(server)
		url := create(t, client, "q", map[string]string{"MessageRetentionPeriod": "60"})
		must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")}))
		settle(time.Minute)
		must[*sqs.SetQueueAttributesOutput](t)(client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: map[string]string{"MessageRetentionPeriod": "3600"}}))
		if got, want := crashed(t, dir).Dump(), server.Dump(); got != want {
			t.Errorf("came back as\n%s\nwas\n%s", got, want)
		}
	})
}

// record returns the log of a busy server.
func record(t *testing.T) (log []byte) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		server := open(t, dir)
		busy(t, sqsclient.New(server))
		log = must[[]byte](t)(os.ReadFile(localsqs.LogName(dir, 0)))
	})
	return log
}

func place(t *testing.T, log []byte) string {
	dir := t.TempDir()
	if err := os.WriteFile(localsqs.LogName(dir, 0), log, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTornTailIsCutWhereverItTears(t *testing.T) {
	log := record(t)
	ends := map[int]bool{0: true} // where frames end
	for at := 0; at < len(log); {
		at += localsqs.FrameHeader + int(binary.LittleEndian.Uint32(log[at:]))
		ends[at] = true
	}
	if len(ends) < 20 {
		t.Fatalf("only %d frames", len(ends))
	}
	whole := 0
	for n := range len(log) + 1 {
		if ends[n] {
			whole = n
		}
		if n%31 != 0 && !ends[n] && !ends[n-1] {
			continue // every frame is torn at its ends and at some of its bytes
		}
		dir := place(t, log[:n])
		if err := open(t, dir).Close(); err != nil {
			t.Fatal(err)
		}
		if left := must[[]byte](t)(os.ReadFile(localsqs.LogName(dir, 0))); !bytes.Equal(left[:whole], log[:whole]) {
			t.Fatalf("%d bytes: what was whole has changed", n)
		}
		if err := open(t, dir).Close(); err != nil { // what was written behind the cut is whole, too
			t.Fatal(err)
		}
	}
}

func TestDamageIsRefusedWithFileAndOffset(t *testing.T) {
	log := record(t)
	last := 0
	for at := 0; at < len(log); {
		last = at
		at += localsqs.FrameHeader + int(binary.LittleEndian.Uint32(log[at:]))
	}
	for at := 0; at < len(log); at += 11 {
		bad := bytes.Clone(log)
		bad[at] ^= 0x40
		dir := place(t, bad)
		_, err := localsqs.Open(dir, localsqs.Options{})
		var damage *localsqs.DamageError
		if !errors.As(err, &damage) {
			t.Fatalf("flipped byte %d: %v", at, err)
		}
		if damage.File != localsqs.LogName(dir, 0) || damage.Offset > int64(at) || damage.Offset > int64(last) {
			t.Errorf("flipped byte %d: %v", at, err)
		}
		if after := must[[]byte](t)(os.ReadFile(damage.File)); !bytes.Equal(after, bad) {
			t.Fatal("the damaged file was changed")
		}
	}
}

func TestDirectoryServesOneServerAtATime(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if _, err := localsqs.Open(dir, localsqs.Options{}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestLogIsCompactedAndNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no task moves on while the server is away
		dir := t.TempDir()
		server := open(t, dir)
		server.CompactAt(64 << 10)
		client := sqsclient.New(server)
		busy(t, client)
		url := create(t, client, "big", nil)
		body := strings.Repeat("x", 1<<10)
		for range 300 {
			must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
			m := must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url})).Messages[0]
			must[*sqs.DeleteMessageOutput](t)(client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))
		}
		want := server.Dump()
		if err := server.Close(); err != nil { // waits for the snapshot
			t.Fatal(err)
		}
		var size int64
		for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
			size += must[os.FileInfo](t)(e.Info()).Size()
		}
		if size > 150<<10 {
			t.Errorf("%d KiB on disk for a few messages", size>>10)
		}
		if got := open(t, dir).Dump(); got != want {
			t.Errorf("came back as\n%s\nwas\n%s", got, want)
		}
	})
}

func TestNothingIsAcknowledgedThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		server := open(t, dir)
		client := sqsclient.New(server, func(o *sqs.Options) { o.RetryMaxAttempts = 1 })
		url := create(t, client, "q", nil)
		if err := sendOne(client, url); err != nil {
			t.Fatal(err)
		}
		server.BreakJournal()
		for range 2 {
			if sendOne(client, url) == nil {
				t.Error("a send was acknowledged")
			}
		}
		if server.Close() == nil {
			t.Error("Close hides the failure")
		}
		if n := depth(t, sqsclient.New(open(t, dir)), url); n != "1" {
			t.Errorf("%s messages came back", n)
		}
	})
}

func TestKilledDuringCompactionLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no task moves on while the server is away
		dir := t.TempDir()
		server := open(t, dir)
		busy(t, sqsclient.New(server))
		want := server.Dump()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		// The next log has begun, and the snapshot before it is half written.
		for name, content := range map[string]string{localsqs.LogName(dir, 1): "", filepath.Join(dir, "00000001.snapshot.new"): "half"} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := open(t, dir).Dump(); got != want {
			t.Errorf("came back as\n%s\nwas\n%s", got, want)
		}
	})
}

func depth(t testing.TB, client *sqs.Client, url *string) string {
	return must[*sqs.GetQueueAttributesOutput](t)(client.GetQueueAttributes(context.Background(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"All"}})).Attributes["ApproximateNumberOfMessages"]
}
