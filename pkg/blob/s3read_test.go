package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"pgregory.net/rapid"
)

// ranges notes which bytes the requests of a bucket ask for.
func (b *bucket) ranges() *[]string {
	asked := &[]string{}
	b.fail = func(r *http.Request) bool {
		*asked = append(*asked, r.Method+" "+r.Header.Get("Range"))
		return false
	}
	return asked
}

func random(n int) []byte {
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	return content
}

func TestContentIsReadFromAnyPlaceOnOnBothStores(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			content := random(100_000)
			put(t, s, "k", content)
			c, err := s.Content(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if err := iotest.TestReader(c, content); err != nil {
				t.Error(err)
			}
			rapid.Check(t, func(rt *rapid.T) {
				at := rapid.Int64Range(0, 110_000).Draw(rt, "at")
				n := rapid.IntRange(1, 5000).Draw(rt, "n")
				if got, err := c.Seek(at, io.SeekStart); got != at || err != nil {
					rt.Fatalf("at %d, %v", got, err)
				}
				want := content[min(int(at), len(content)):min(int(at)+n, len(content))]
				got := make([]byte, n)
				if m, err := io.ReadFull(c, got); !bytes.Equal(got[:m], want) || m < n && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					rt.Fatalf("%d bytes from %d, %v", m, at, err)
				}
			})
		})
	}
}

func TestAnEmptyObjectAndWhatLiesBeyondAnEndAreNotAskedFor(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "")
	put(t, s, "empty", nil)
	put(t, s, "short", []byte("abc"))
	asked := b.ranges()
	for _, key := range []string{"empty", "short"} {
		c, err := s.Content(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Seek(7, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %d, %v", key, n, err)
		}
	}
	if got := strings.Join(*asked, ","); got != "HEAD ,HEAD " {
		t.Errorf("requests %s", got)
	}
}

func TestAConnectionThatBreaksIsMadeAgainForTheBytesThatAreLeft(t *testing.T) {
	content := random(1000)
	for name, open := range map[string]func(context.Context, *S3) (io.ReadCloser, error){
		"open":    func(ctx context.Context, s *S3) (io.ReadCloser, error) { return s.Open(ctx, "k") },
		"content": func(ctx context.Context, s *S3) (io.ReadCloser, error) { return s.Content(ctx, "k") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t)
			s := inBucket(t, b, "")
			put(t, s, "k", content)
			asked := b.ranges()
			b.cut = func(*http.Request) int { return 300 }
			r, err := open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if got := strings.Join(*asked, ","); !strings.HasSuffix(got, "GET bytes=300-,GET bytes=600-,GET bytes=900-") {
				t.Errorf("requests %s", got)
			}
		})
	}
}

func TestAConnectionThatBringsNothingIsGivenUpAndNeverPassesForTheEnd(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "")
	put(t, s, "k", random(1000))
	b.cut = func(r *http.Request) int {
		if r.Header.Get("Range") == "" {
			return 400
		}
		return 0
	}
	asked := b.ranges()
	r, err := s.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if got, err := io.ReadAll(r); err == nil || len(got) != 400 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if len(*asked) > 1+brokenInARow || len(*asked) < 3 { // the first may have broken before the next read, or with it
		t.Errorf("requests %v", *asked)
	}
}

func TestAnObjectThatIsReplacedBetweenTwoRangesIsNotMixedWithTheNewOne(t *testing.T) {
	for name, replaced := range map[string][]byte{"as long": random(1000), "shorter": random(10)} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t)
			s := inBucket(t, b, "")
			put(t, s, "k", random(1000))
			c, err := s.Content(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, c, 100); err != nil {
				t.Fatal(err)
			}
			put(t, s, "k", replaced)
			if _, err := c.Seek(500, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "PreconditionFailed") {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
}

func TestAStoreThatIgnoresRangesIsNotBelieved(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "")
	put(t, s, "k", random(1000))
	b.fail = func(r *http.Request) bool { r.Header.Del("Range"); return false }
	c, err := s.Content(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Seek(500, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 10)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestAnObjectWhoseLengthIsNotToldDoesNotPassForAnEmptyOne(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "")
	put(t, s, "k", random(1000))
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush() // what follows is sent in chunks
		b.ServeHTTP(w, r)
	}))
	defer between.Close()
	s.client = s3.New(s.client.Options(), func(o *s3.Options) { o.BaseEndpoint = &between.URL })
	if body, err := s.Open(t.Context(), "k"); err == nil {
		got, err := io.ReadAll(body)
		t.Errorf("opened: %d bytes, %v", len(got), err)
	}
	if body, err := s.Content(t.Context(), "k"); err == nil {
		got, err := io.ReadAll(body)
		t.Errorf("content: %d bytes, %v", len(got), err)
	}
}

func TestRequestsThatFailOnTheWayAreRepeated(t *testing.T) {
	b := newBucket(t)
	client := s3.New(s3.Options{
		BaseEndpoint: &b.URL, UsePathStyle: true, Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	})
	s, err := NewS3(client, "bucket", "")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", []byte("content"))
	tries := map[string]int{}
	b.fail = func(r *http.Request) bool {
		what := r.Method + r.Header.Get("Range")
		tries[what]++
		return tries[what] < 3
	}
	c, err := s.Content(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "tent" || tries["HEAD"] != 3 || tries["GETbytes=3-"] != 3 {
		t.Errorf("%q, %v, tries %v", got, err, tries)
	}
}
