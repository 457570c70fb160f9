package blob

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// bucket is as much of S3 as a store uses. fail, if set, breaks requests that it returns true for, cut the connection of an answer
// after so many bytes.
type bucket struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[string][]byte // id, part number
	fail    func(*http.Request) bool
	cut     func(*http.Request) int
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{objects: map[string][]byte{}, uploads: map[string]map[string][]byte{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func inBucket(t *testing.T, b *bucket, prefix string) *S3 {
	t.Helper()
	client := s3.New(s3.Options{BaseEndpoint: &b.URL, UsePathStyle: true, Region: "eu-west-1", RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
	s, err := NewS3(client, "bucket", prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.Header.Get("Content-Encoding"), "aws-chunked") {
		body = dechunk(body)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil && b.fail(r) {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	key, query := r.URL.Path, r.URL.Query()
	id := query.Get("uploadId")
	switch {
	case r.Method == http.MethodPost && query.Has("uploads"):
		id := fmt.Sprint("upload-", len(b.uploads))
		b.uploads[id] = map[string][]byte{}
		_, _ = fmt.Fprintf(w, `<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>`, id)
	case r.Method == http.MethodPut && id != "":
		b.uploads[id][query.Get("partNumber")] = body
		w.Header().Set("ETag", `"`+query.Get("partNumber")+`"`)
	case r.Method == http.MethodPost && id != "":
		b.complete(w, key, id, body)
	case r.Method == http.MethodDelete && id != "":
		delete(b.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		source, _ := url.PathUnescape(r.Header.Get("X-Amz-Copy-Source"))
		content, ok := b.objects["/"+source]
		if !ok {
			missingKey(w)
			return
		}
		b.objects[key] = content
		_, _ = io.WriteString(w, `<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>`)
	case r.Method == http.MethodPut:
		b.objects[key] = body
	case r.Method == http.MethodGet && query.Has("list-type"):
		b.list(w, key+"/"+query.Get("prefix"))
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		b.get(w, r, key)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// get answers as S3 does: with an entity tag, parts of an object, 412 for another object than was asked for, and 416 for bytes
// beyond its end (Amazon S3 API Reference, "GetObject" and "Error responses").
func (b *bucket) get(w http.ResponseWriter, r *http.Request, key string) {
	content, ok := b.objects[key]
	tag := fmt.Sprintf("%q", hex.EncodeToString(fmt.Append(nil, crc32.ChecksumIEEE(content))))
	var first int
	_, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first)
	switch {
	case !ok && r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	case !ok:
		missingKey(w)
	case r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != tag:
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case err == nil && first >= len(content):
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
	default:
		w.Header().Set("ETag", tag)
		if err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(content)-1, len(content)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-first))
		if err == nil {
			w.WriteHeader(http.StatusPartialContent)
		}
		b.send(w, r, content[first:])
	}
}

func (b *bucket) send(w http.ResponseWriter, r *http.Request, content []byte) {
	if r.Method == http.MethodHead {
		return
	}
	if b.cut != nil {
		if n := b.cut(r); n < len(content) {
			_, _ = w.Write(content[:n])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = w.Write(content)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no</Message></Error>`, code)
}

func (b *bucket) complete(w http.ResponseWriter, key, id string, body []byte) {
	var order struct {
		Part []struct{ PartNumber, ETag string }
	}
	if err := xml.Unmarshal(body, &order); err != nil || len(order.Part) != len(b.uploads[id]) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var whole []byte
	for _, p := range order.Part {
		whole = append(whole, b.uploads[id][p.PartNumber]...)
	}
	b.objects[key] = whole
	delete(b.uploads, id)
	_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>`)
}

func (b *bucket) list(w http.ResponseWriter, prefix string) {
	_, _ = io.WriteString(w, `<ListBucketResult>`)
	for key, content := range b.objects {
		if strings.HasPrefix(key, prefix) {
			_, _ = fmt.Fprintf(w, `<Contents><Key>%s</Key><Size>%d</Size></Contents>`, strings.TrimPrefix(key, "/bucket/"), len(content))
		}
	}
	_, _ = io.WriteString(w, `</ListBucketResult>`)
}

func missingKey(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "NoSuchKey")
}

// dechunk undoes the SDK's own framing of uploads.
func dechunk(body []byte) []byte {
	var out []byte
	for {
		head, rest, ok := bytes.Cut(body, []byte("\r\n"))
		var size int
		if _, err := fmt.Sscanf(string(head), "%x", &size); !ok || err != nil || size == 0 || size > len(rest) {
			return out
		}
		out = append(out, rest[:size]...)
		body = bytes.TrimPrefix(rest[size:], []byte("\r\n"))
	}
}

func TestASmallObjectIsOneRequestAndALargeOneAnUploadInParts(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "")
	var requests []string
	b.fail = func(r *http.Request) bool { requests = append(requests, r.Method); return false }
	put(t, s, "small", []byte("x"))
	put(t, s, "large", make([]byte, 2*PartSize+1))
	if got := strings.Join(requests, " "); got != "PUT POST PUT PUT PUT POST" {
		t.Fatalf("requests: %s", got)
	}
	if b.objects["/bucket/small"] == nil || len(b.objects["/bucket/large"]) != 2*PartSize+1 {
		t.Fatal("the keys are not where they should be")
	}
}

func TestAnUploadThatFailsIsGivenBack(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "p")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Create(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, PartSize)); err != nil {
		t.Fatal(err)
	}
	b.fail = func(r *http.Request) bool { return r.Method == http.MethodPost }
	if _, err := w.Commit(); err == nil || errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	cancel()
	if len(b.uploads) != 0 || len(b.objects) != 0 {
		t.Fatalf("left %d uploads and %d objects", len(b.uploads), len(b.objects))
	}
}

func TestALostConnectionIsNotAMissingObject(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "p")
	b.fail = func(*http.Request) bool { return true }
	if _, err := s.Open(t.Context(), "k"); err == nil || errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestAFetchedObjectIsFetchedOnce(t *testing.T) {
	b := newBucket(t)
	s := inBucket(t, b, "p")
	put(t, s, "k", []byte("content"))
	fetches := 0
	b.fail = func(*http.Request) bool { fetches++; return false }
	dir := t.TempDir()
	first, err1 := s.Path(t.Context(), "k", dir)
	second, err2 := s.Path(t.Context(), "k", dir)
	if first != second || err1 != nil || err2 != nil || fetches != 1 {
		t.Fatalf("got %s and %s after %d fetches, %v, %v", first, second, fetches, err1, err2)
	}
}
