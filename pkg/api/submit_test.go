package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

func TestASubmissionIsAcceptedOnceItsBytesAndItsJobAreKept(t *testing.T) {
	b := setup(t)
	response, body := b.post(t, field{"file", "talk.mp4", "the bytes"}, field{"version", "", "3"}, field{"target", "", "Monday"})
	if response.StatusCode != http.StatusAccepted || response.Header.Get("Location") != "/v1/jobs/j1" {
		t.Fatalf("= %d, Location %q", response.StatusCode, response.Header.Get("Location"))
	}
	if body["id"] != "j1" || body["state"] != "queued" || body["target"] != "Monday" {
		t.Errorf("body = %v", body)
	}
	sub := b.submitted[0]
	sum := sha256.Sum256([]byte("the bytes"))
	if sub.Digest != hex.EncodeToString(sum[:]) || sub.Version != 3 || sub.Tenant != api.Tenant || sub.First.Queue != "q.fifo" {
		t.Errorf("submission = %+v", sub)
	}
	var source recording.Source
	if err := json.Unmarshal(sub.Input, &source); err != nil || source.Validate() != nil || source.Name != "talk.mp4" {
		t.Errorf("source = %+v, %v", source, err)
	}
	kept, err := os.ReadFile(filepath.Join(b.folder, source.Object.Key))
	if err != nil || string(kept) != "the bytes" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestTheTargetIsTheBaseNameOfTheFileUnlessGiven(t *testing.T) {
	b := setup(t)
	for name, want := range map[string]string{"talk.mp4": "talk.mp4", "../../etc/passwd": "passwd", `C:\films\a.mov`: "a.mov", "Gespräch.mp4": "Gespräch.mp4"} {
		b.post(t, field{"file", name, "x"})
		if got := b.submitted[len(b.submitted)-1].Target; got != want {
			t.Errorf("target of %q = %q, want %q", name, got, want)
		}
	}
}

func TestARequestThatIsNoSubmissionSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		fields []field
		status int
		code   string
	}{
		"no file":          {[]field{{"target", "", "a"}}, 400, "no_file"},
		"two files":        {[]field{{"file", "a", "x"}, {"file", "b", "y"}}, 400, "two_files"},
		"another field":    {[]field{{"file", "a", "x"}, {"tarqet", "", "y"}}, 400, "unknown_field"},
		"version zero":     {[]field{{"file", "a", "x"}, {"version", "", "0"}}, 400, "version"},
		"version in words": {[]field{{"file", "a", "x"}, {"version", "", "two"}}, 400, "version"},
		"a long target":    {[]field{{"file", "a", "x"}, {"target", "", strings.Repeat("t", api.MaxTarget+1)}}, 400, "field_too_long"},
		"a broken target":  {[]field{{"file", "a", "x"}, {"target", "", "\xff"}}, 400, "field_text"},
		"too large":        {[]field{{"file", "a", strings.Repeat("x", maxUpload+1)}}, 413, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			response, body := b.post(t, c.fields...)
			if response.StatusCode != c.status || body["code"] != c.code || response.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("= %d %v", response.StatusCode, body)
			}
			if detail, _ := body["detail"].(string); !strings.HasSuffix(detail, ".") {
				t.Errorf("detail %q is no sentence", detail)
			}
			if len(b.submitted) != 0 {
				t.Error("a job was made")
			}
		})
	}
}

func TestTheLargestUploadIsTakenAndALargerOneLeavesNothing(t *testing.T) {
	b := setup(t)
	if response, body := b.post(t, field{"file", "a", strings.Repeat("x", maxUpload)}); response.StatusCode != http.StatusAccepted {
		t.Fatalf("the largest: %d %v", response.StatusCode, body)
	}
	before := len(b.objects(t))
	b.post(t, field{"file", "a", strings.Repeat("x", maxUpload+1)})
	if after := len(b.objects(t)); after != before {
		t.Errorf("objects: %d before, %d after", before, after)
	}
}

func TestAClientLearnsThatItsUploadIsTooLargeWhileItSends(t *testing.T) {
	b := setup(t)
	for range 5 {
		_, err := b.client.Submit(t.Context(), api.Request{Name: "long.mp4"}, strings.NewReader(strings.Repeat("x", 8*maxUpload)))
		if p, ok := errors.AsType[*api.Problem](err); !ok || p.Status != http.StatusRequestEntityTooLarge {
			t.Fatalf("error = %v", err)
		}
	}
}

func TestAnUploadThatBreaksOffMakesNoJob(t *testing.T) {
	b := setup(t)
	contentType, body := form(t, field{"file", "a", strings.Repeat("x", 1000)})
	whole, _ := io.ReadAll(body)
	response, err := http.Post(b.server.URL+"/v1/jobs", contentType, bytes.NewReader(whole[:len(whole)-100]))
	if err != nil {
		t.Fatal(err)
	}
	if p := decode(t, response); p["code"] != "broken_upload" || response.StatusCode != http.StatusBadRequest {
		t.Errorf("= %d %v", response.StatusCode, p)
	}
	if len(b.submitted) != 0 || len(b.objects(t)) != 0 {
		t.Errorf("%d jobs, %d objects", len(b.submitted), len(b.objects(t)))
	}
}

// patience is a connection that tells whether a deadline was set for the next read.
type patience struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (p *patience) SetReadDeadline(t time.Time) error {
	p.deadline = t
	return nil
}

// trickle is a body that comes byte by byte and counts the reads that could wait for ever.
type trickle struct {
	io.Reader
	connection *patience
	endless    int
}

func (r *trickle) Read(p []byte) (int, error) {
	if !r.connection.deadline.After(time.Now()) {
		r.endless++
	}
	r.connection.deadline = time.Time{}
	return r.Reader.Read(p[:min(1, len(p))])
}

func TestNoPartOfAnUploadMayStallForEver(t *testing.T) {
	b := setup(t)
	contentType, body := form(t, field{"target", "", "Monday"}, field{"file", "a", "the bytes"}, field{"version", "", "3"})
	connection := &patience{ResponseRecorder: httptest.NewRecorder()}
	slow := &trickle{Reader: body, connection: connection}
	request := httptest.NewRequest(http.MethodPost, "http://localhost/v1/jobs", slow)
	request.Header.Set("Content-Type", contentType)
	b.server.Config.Handler.ServeHTTP(connection, request)
	if connection.Code != http.StatusAccepted || slow.endless != 0 {
		t.Errorf("= %d %s; %d reads without a deadline", connection.Code, connection.Body, slow.endless)
	}
}

func TestRefusalsOfTheRecordAreToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
		after  string
	}{
		"another version's bytes":   {fmt.Errorf("submit: %w", job.ErrVersionConflict), 409, "version_conflict", ""},
		"a key used before":         {job.ErrIdempotencyMismatch, 422, "idempotency_mismatch", ""},
		"too many in flight":        {&job.Refused{Reason: "in_flight_limit", RetryAfter: 1500 * time.Millisecond}, 429, "in_flight_limit", "2"},
		"the day's allowance spent": {&job.Refused{Reason: "daily_cap", RetryAfter: time.Hour}, 429, "daily_cap", "3600"},
		"no balance":                {&job.Refused{Reason: "balance"}, 402, "balance", ""},
		"the fleet is full":         {&job.Refused{Reason: "capacity", RetryAfter: time.Minute}, 503, "capacity", "60"},
		"anything else":             {errors.New("disk: secret"), 500, "internal", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.err = c.err
			response, body := b.post(t, field{"file", "talk.mp4", "x"})
			if response.StatusCode != c.status || body["code"] != c.code || response.Header.Get("Retry-After") != c.after {
				t.Errorf("= %d %v, Retry-After %q", response.StatusCode, body, response.Header.Get("Retry-After"))
			}
			if strings.Contains(fmt.Sprint(body), "secret") {
				t.Error("the answer tells an inner error")
			}
		})
	}
}

func TestTheIdempotencyKeyGoesWithAHashOfTheRequest(t *testing.T) {
	b := setup(t)
	for _, target := range []string{"a", "a", "b"} {
		_, err := b.client.Submit(t.Context(), api.Request{Name: "f", Target: target, IdempotencyKey: "k"}, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
	}
	s := b.submitted
	if s[0].IdempotencyKey != "k" || s[0].BodyHash != s[1].BodyHash || s[0].BodyHash == s[2].BodyHash {
		t.Errorf("hashes = %s %s %s", s[0].BodyHash, s[1].BodyHash, s[2].BodyHash)
	}
}
