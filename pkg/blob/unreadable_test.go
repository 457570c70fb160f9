package blob

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestAKeyThatAFileSystemCannotHoldHasNoObject(t *testing.T) {
	s, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a.mp4", []byte("x"))
	for _, key := range []string{"a.mp4/x", strings.Repeat("x", 256), "a/" + strings.Repeat("x", 256) + "/b"} {
		if _, err := s.Open(t.Context(), key); !errors.Is(err, ErrNotFound) {
			t.Errorf("open: %v", err)
		}
		if _, err := s.Content(t.Context(), key); !errors.Is(err, ErrNotFound) {
			t.Errorf("content: %v", err)
		}
		if err := s.Link(t.Context(), key, "to"); !errors.Is(err, ErrNotFound) {
			t.Errorf("link: %v", err)
		}
	}
}

func TestAFileThatMayNotBeReadIsUnreadableAndAFailingDiskIsNot(t *testing.T) {
	for cause, want := range map[error]bool{fs.ErrPermission: true, syscall.EACCES: true, syscall.EIO: false, syscall.EMFILE: false} {
		err := notOpened("k", &os.PathError{Op: "open", Path: "k", Err: cause})
		if errors.Is(err, ErrUnreadable) != want || errors.Is(err, ErrNotFound) {
			t.Errorf("%v became %v", cause, err)
		}
	}
}

func TestAnAnswerAboutOneObjectIsToldFromAFaultOfTheBucket(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error // nil: neither of the three
	}{
		{404, "NoSuchKey", ErrNotFound},
		{400, "KeyTooLongError", ErrKey},
		{403, "AccessDenied", ErrUnreadable},
		{403, "InvalidObjectState", ErrUnreadable},
		{400, "InvalidRequest", ErrUnreadable},
		{400, "ExpiredToken", nil},
		{403, "InvalidAccessKeyId", nil},
		{403, "RequestTimeTooSkewed", nil},
		{404, "NoSuchBucket", nil},
		{429, "TooManyRequests", nil},
		{503, "SlowDown", nil},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(`<Error><Code>` + c.code + `</Code><Message>m</Message></Error>`))
		}))
		s := inBucket(t, &bucket{Server: server}, "p")
		_, err := s.Open(t.Context(), "k")
		own := errors.Is(err, ErrNotFound) || errors.Is(err, ErrKey) || errors.Is(err, ErrUnreadable)
		if err == nil || own != (c.want != nil) || own && !errors.Is(err, c.want) {
			t.Errorf("%s became %v", c.code, err)
		}
		if _, err := s.Content(t.Context(), "k"); c.status == 403 && !errors.Is(err, ErrUnreadable) { // no code comes with it
			t.Errorf("%s without a body became %v", c.code, err)
		}
		server.Close()
	}
}
