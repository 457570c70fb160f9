//go:build unix

package localsqs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

const benchURL = "http://sqs.local/000000000000/"

func createBench(b testing.TB, server http.Handler, name string) {
	attrs := `{}`
	if strings.HasSuffix(name, ".fifo") {
		attrs = `{"FifoQueue":"true"}`
	}
	post(b, server, "CreateQueue", fmt.Sprintf(`{"QueueName":%q,"Attributes":%s}`, name, attrs))
}

func batchBody(queue string, n int, group func(i int) string) string {
	body := strings.Repeat("x", 1024)
	var entries []string
	for i := range 10 {
		e := fmt.Sprintf(`{"Id":"%d","MessageBody":%q`, i, body)
		if group != nil {
			e += fmt.Sprintf(`,"MessageGroupId":%q,"MessageDeduplicationId":"%d"`, group(n*10+i), n*10+i)
		}
		entries = append(entries, e+"}")
	}
	return fmt.Sprintf(`{"QueueUrl":%q,"Entries":[%s]}`, benchURL+queue, strings.Join(entries, ","))
}

func receiveBatch(b testing.TB, server http.Handler, queue string) (handles []string) {
	var out struct {
		Messages []struct{ ReceiptHandle string }
	}
	if err := json.Unmarshal(post(b, server, "ReceiveMessage", fmt.Sprintf(`{"QueueUrl":%q,"MaxNumberOfMessages":10}`, benchURL+queue)), &out); err != nil {
		b.Fatal(err)
	}
	for _, m := range out.Messages {
		handles = append(handles, m.ReceiptHandle)
	}
	return handles
}

func deleteBody(queue string, handles []string) string {
	var entries []string
	for i, h := range handles {
		entries = append(entries, fmt.Sprintf(`{"Id":"%d","ReceiptHandle":%q}`, i, h))
	}
	return fmt.Sprintf(`{"QueueUrl":%q,"Entries":[%s]}`, benchURL+queue, strings.Join(entries, ","))
}

// BenchmarkCycle is ten messages sent, received and deleted by the handler alone.
func BenchmarkCycle(b *testing.B) {
	for name, group := range map[string]func(int) string{"standard": nil, "q.fifo": func(i int) string { return fmt.Sprint("g", i%64) }} {
		b.Run(name, func(b *testing.B) {
			server := newServer(b, localsqs.Options{})
			createBench(b, server, name)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				body := batchBody(name, n, group)
				b.StartTimer()
				post(b, server, "SendMessageBatch", body)
				post(b, server, "DeleteMessageBatch", deleteBody(name, receiveBatch(b, server, name)))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*10), "µs/message")
		})
	}
}

// cpuTime is the processor time of this process so far, which other processes do not disturb.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReceiveWithGroups shows that the number of groups does not matter: each iteration receives a batch and gives
// it back.
func BenchmarkReceiveWithGroups(b *testing.B) {
	for _, groups := range []int{10, 100, 10_000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			server := newServer(b, localsqs.Options{})
			createBench(b, server, "q.fifo")
			for n := range 2_000 {
				post(b, server, "SendMessageBatch", batchBody("q.fifo", n, func(i int) string { return fmt.Sprint("g", i%groups) }))
			}
			before := cpuTime()
			for b.Loop() {
				handle := receiveBatch(b, server, "q.fifo")
				post(b, server, "ChangeMessageVisibilityBatch", strings.ReplaceAll(deleteBody("q.fifo", handle), `"}`, `","VisibilityTimeout":0}`))
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
