package api_test

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// transactions is how many the record has run so far, of any kind.
func (h *house) transactions(t *testing.T) uint64 {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for _, f := range families {
		if f.GetName() != "fleet_db_transaction_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetHistogram().GetSampleCount()
		}
	}
	return n
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func TestAThousandWatchersCostOneQueryASecondAndLittleMemory(t *testing.T) {
	const watchers, seconds, bound = 1000, 5, 200 << 20
	h := newHouse(t, "sqlite")
	key := h.key("acme", 1_000_000, job.AllScopes()...)
	var ids []string
	for i := range 10 {
		ids = append(ids, h.submit(key, fmt.Sprint("talk ", i), "bytes").body["id"].(string))
	}
	before := inUse()
	streams := make([]*bufio.Reader, watchers)
	for i := range streams {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /v1/jobs/%s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", ids[i%len(ids)], key)
		streams[i] = bufio.NewReaderSize(conn, 512)
		next(t, streams[i])
	}
	// The first look reads what is new to it.
	<-time.After(1500 * time.Millisecond)
	start := h.transactions(t)
	<-time.After(seconds * time.Second)
	looks := h.transactions(t) - start
	memory := inUse() - before
	t.Logf("%d watchers: %d transactions in %d s, %.1f MiB, their own ends included", watchers, looks, seconds, float64(memory)/(1<<20))
	if looks > seconds+1 || looks == 0 {
		t.Errorf("%d transactions in %d s, want one a second", looks, seconds)
	}
	if memory > bound {
		t.Errorf("memory grew by %d bytes, bound %d", memory, bound)
	}
	h.complete(map[string]string{"index.html": ""})
	for i, stream := range streams {
		event := next(t, stream)
		if strings.Contains(event, `"state":"running"`) { // the look fell between claim and publication
			event = next(t, stream)
		}
		if !strings.Contains(event, `"version":1,"state":"completed"`) {
			t.Fatalf("watcher %d got %s", i, event)
		}
	}
}

// next reads one event's data.
func next(t *testing.T, stream *bufio.Reader) string {
	t.Helper()
	for {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return data
		}
	}
}
