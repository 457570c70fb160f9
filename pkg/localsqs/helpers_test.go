package localsqs_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// post calls the handler without a client or a socket and returns the reply.
func post(b testing.TB, server http.Handler, action, body string) []byte {
	r := httptest.NewRequest(http.MethodPost, "http://sqs.local/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %s", action, w.Body)
	}
	return w.Body.Bytes()
}

// doer makes a client of a transport.
type doer struct{ http.RoundTripper }

func (d doer) Do(r *http.Request) (*http.Response, error) { return d.RoundTrip(r) }
