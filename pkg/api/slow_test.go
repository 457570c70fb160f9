package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// unlocked is a record in memory of a fleet without keys.
type unlocked struct {
	*record
	submitting time.Duration // that a submission takes
}

func (unlocked) HasKeys(context.Context) (bool, error) { return false, nil }

func (u unlocked) CreateUpload(ctx context.Context, up job.Upload) (job.Upload, error) {
	select {
	case <-ctx.Done():
		return up, context.Cause(ctx)
	case <-time.After(u.submitting):
		return up, nil
	}
}

// pipes is a listener whose connections hold nothing on the way: what one end does not read, the other cannot write.
type pipes struct {
	calls chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// call connects and sends a request.
func (p *pipes) call(t *testing.T, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	ours, theirs := net.Pipe()
	p.calls <- theirs
	if _, err := io.WriteString(ours, request); err != nil {
		t.Fatal(err)
	}
	return ours, bufio.NewReader(ours)
}

// bubble runs a test in a synctest bubble with the real server on pipes.
func bubble(t *testing.T, u unlocked, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{calls: make(chan net.Conn), done: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- api.NewServer(api.Config{Record: u, Log: zap.NewNop(), MaxUpload: maxUpload}).Run(ctx, p, time.Second)
		}()
		test(t, p)
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func memory() unlocked { return unlocked{record: &record{jobs: map[string]job.Job{}}} }

func watchOf(id string) string {
	return "GET /v1/jobs/" + id + "/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
}

// read returns the next line of a stream that has the prefix, and when it came after begin.
func read(t *testing.T, stream *bufio.Reader, prefix string, begin time.Time) (string, time.Duration) {
	t.Helper()
	for {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line), time.Since(begin)
		}
	}
}

func TestAWatcherWhoTakesNothingIsCutOffAndHoldsUpNobody(t *testing.T) {
	u := memory()
	bubble(t, u, func(t *testing.T, p *pipes) {
		u.set("j", func(j *job.Job) { j.State = job.Running })
		slow, _ := p.call(t, watchOf("j")) // never reads
		defer slow.Close()
		quick, events := p.call(t, watchOf("j"))
		defer quick.Close()
		for n := 1; n <= 50; n++ {
			id, _ := read(t, events, "id: ", time.Now())
			if id != fmt.Sprint("id: ", n) {
				t.Fatalf("event %d has %s", n, id)
			}
			changed := time.Now()
			u.set("j", func(*job.Job) {})
			if n == 50 {
				break
			}
			synctest.Wait()
			if _, waited := events.Peek(1); waited != nil || time.Since(changed) > 1100*time.Millisecond {
				t.Fatalf("event %d came after %v, %v", n+1, time.Since(changed), waited)
			}
		}
		<-time.After(2 * time.Minute) // the slow one's time is over
		_ = slow.SetReadDeadline(time.Now().Add(time.Second))
		left, err := io.ReadAll(slow)
		if err != nil || len(left) != 0 {
			t.Errorf("the slow watcher's connection is open, or kept %d bytes for it: %v", len(left), err)
		}
	})
}

func TestAQuietStreamSaysThatItLives(t *testing.T) {
	u := memory()
	bubble(t, u, func(t *testing.T, p *pipes) {
		u.set("j", func(j *job.Job) { j.State = job.Running })
		conn, events := p.call(t, watchOf("j"))
		defer conn.Close()
		begin := time.Now()
		read(t, events, "id: 1", begin)
		for n := 1; n <= 4; n++ {
			if _, at := read(t, events, ":", begin); at != time.Duration(n)*15*time.Second {
				t.Errorf("comment %d after %v", n, at)
			}
		}
	})
}

func TestWhoReadsNoAnswerIsCutOff(t *testing.T) {
	bubble(t, memory(), func(t *testing.T, p *pipes) {
		conn, _ := p.call(t, "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
		defer conn.Close()
		<-time.After(2 * time.Minute)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if left, err := io.ReadAll(conn); err != nil || len(left) != 0 {
			t.Errorf("%d bytes are left, %v", len(left), err)
		}
	})
}

func TestWhoSendsNoBodyIsCutOffByEveryOperation(t *testing.T) {
	bubble(t, memory(), func(t *testing.T, p *pipes) {
		for line, media := range map[string]string{
			"POST /v1/quotes": "application/json", "POST /v1/jobs/j/cancel": "application/json", "POST /v1/pauses": "application/json",
			"POST /v1/provider-events/speech": "application/json", "POST /v1/jobs": "application/json", "POST /v1/imports": "multipart/form-data; boundary=b",
			"PUT /v1/jobs": "application/json", "POST /v1/garbage": "text/csv", // refused before anybody has read the body
		} {
			conn, answer := p.call(t, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+media+"\r\nContent-Length: 10\r\n\r\n{")
			begin := time.Now()
			status, _ := answer.ReadString('\n')
			if took := time.Since(begin); took != time.Minute || !strings.HasPrefix(status, "HTTP/1.1 4") {
				t.Errorf("%s: %q after %v", line, status, took)
			}
			conn.Close()
		}
	})
}

func TestWhoDripsASmallBodyIsCutOff(t *testing.T) {
	bubble(t, memory(), func(t *testing.T, p *pipes) {
		for _, line := range []string{"POST /v1/quotes", "POST /v1/provider-events/speech"} {
			conn, answer := p.call(t, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
			begin, ended := time.Now(), make(chan struct{})
			go func() {
				defer close(ended)
				for err := error(nil); err == nil; _, err = io.WriteString(conn, " ") {
					<-time.After(25 * time.Second)
				}
			}()
			status, _ := answer.ReadString('\n')
			if took := time.Since(begin); took > 2*time.Minute || !strings.HasPrefix(status, "HTTP/1.1 4") {
				t.Errorf("%s: %q after %v", line, status, took)
			}
			conn.Close()
			<-ended
		}
	})
}

func TestAnOperationThatTakesLongIsNotTakenForAnAbandonedOne(t *testing.T) {
	u := memory()
	u.submitting = 5 * time.Minute
	bubble(t, u, func(t *testing.T, p *pipes) {
		body := `{"name":"a","size":1}`
		conn, answer := p.call(t, fmt.Sprintf("POST /v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		defer conn.Close()
		response, err := http.ReadResponse(answer, nil)
		if err != nil || response.StatusCode != http.StatusCreated {
			t.Errorf("%+v, %v", response, err)
		}
	})
}
