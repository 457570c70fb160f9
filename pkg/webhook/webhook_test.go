package webhook_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// The example of the specification: secret, identifier, time, body and signature.
const (
	knownSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	knownID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	knownBody   = `{"test": 2432232314}`
	knownSum    = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var knownTime = time.Unix(1614265330, 0)

func secret(t *testing.T, text string) webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func known() http.Header {
	return http.Header{webhook.HeaderID: {knownID}, webhook.HeaderTimestamp: {strconv.FormatInt(knownTime.Unix(), 10)}, webhook.HeaderSignature: {knownSum}}
}

func TestASignatureIsTheSpecificationsOwn(t *testing.T) {
	h := http.Header{}
	webhook.Sign(h, []webhook.Secret{secret(t, knownSecret)}, knownID, knownTime, []byte(knownBody))
	if got := h.Get(webhook.HeaderSignature); got != knownSum {
		t.Fatalf("signature %s, want %s", got, knownSum)
	}
	if id, err := webhook.Verify(h, []webhook.Secret{secret(t, knownSecret)}, knownTime, []byte(knownBody)); err != nil || id != knownID {
		t.Fatalf("verified as %q, %v", id, err)
	}
}

func TestWhateverIsChangedMakesASignatureInvalid(t *testing.T) {
	for name, change := range map[string]func(http.Header, *string, *time.Time){
		"identifier":         func(h http.Header, _ *string, _ *time.Time) { h.Set(webhook.HeaderID, "msg_other") },
		"no identifier":      func(h http.Header, _ *string, _ *time.Time) { h.Del(webhook.HeaderID) },
		"time":               func(h http.Header, _ *string, _ *time.Time) { h.Set(webhook.HeaderTimestamp, "1614265331") },
		"no time":            func(h http.Header, _ *string, _ *time.Time) { h.Del(webhook.HeaderTimestamp) },
		"body":               func(_ http.Header, body *string, _ *time.Time) { *body += " " },
		"another scheme":     func(h http.Header, _ *string, _ *time.Time) { h.Set(webhook.HeaderSignature, "v2"+knownSum[2:]) },
		"no signature":       func(h http.Header, _ *string, _ *time.Time) { h.Del(webhook.HeaderSignature) },
		"no scheme":          func(h http.Header, _ *string, _ *time.Time) { h.Set(webhook.HeaderSignature, knownSum[3:]) },
		"half a signature":   func(h http.Header, _ *string, _ *time.Time) { h.Set(webhook.HeaderSignature, knownSum[:20]) },
		"too late by a tick": func(_ http.Header, _ *string, now *time.Time) { *now = knownTime.Add(webhook.Tolerance + 1) },
		"too early":          func(_ http.Header, _ *string, now *time.Time) { *now = knownTime.Add(-webhook.Tolerance - 1) },
	} {
		t.Run(name, func(t *testing.T) {
			h, body, now := known(), knownBody, knownTime
			change(h, &body, &now)
			_, err := webhook.Verify(h, []webhook.Secret{secret(t, knownSecret)}, now, []byte(body))
			if !errors.Is(err, webhook.ErrSignature) || err.Error() != webhook.ErrSignature.Error() {
				t.Fatalf("got %v", err)
			}
		})
	}
	for _, edge := range []time.Duration{webhook.Tolerance, -webhook.Tolerance} {
		if _, err := webhook.Verify(known(), []webhook.Secret{secret(t, knownSecret)}, knownTime.Add(edge), []byte(knownBody)); err != nil {
			t.Errorf("at %v: %v", edge, err)
		}
	}
	if _, err := webhook.Verify(known(), []webhook.Secret{{}}, knownTime, []byte(knownBody)); err == nil {
		t.Error("the zero secret verified something")
	}
}

func TestWhileASecretIsReplacedBothAreGood(t *testing.T) {
	older, newer := webhook.NewSecret(), webhook.NewSecret()
	h := http.Header{}
	webhook.Sign(h, []webhook.Secret{newer, older}, "e1", knownTime, []byte("{}"))
	for _, s := range []webhook.Secret{older, newer} {
		if _, err := webhook.Verify(h, []webhook.Secret{s}, knownTime, []byte("{}")); err != nil {
			t.Error(err)
		}
	}
	if again := secret(t, newer.Text()); again.Text() != newer.Text() {
		t.Error("a secret's text does not read back")
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", newer, newer, newer, newer); strings.Contains(shown, newer.Text()[6:]) {
		t.Errorf("a secret is shown: %s", shown)
	}
	for _, bad := range []string{"", "whsec_", "whsec_!", knownSecret[6:], "whsec_" + strings.Repeat("A", 28), "whsec_" + strings.Repeat("AAAA", 22)} {
		if _, err := webhook.ParseSecret(bad); err == nil {
			t.Errorf("%q is taken for a secret", bad)
		}
	}
}

func TestManySignaturesCostNoMoreThanOne(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 1<<20)
	took := func(signatures string) time.Duration {
		h := known()
		h.Set(webhook.HeaderSignature, signatures)
		began := time.Now()
		if _, err := webhook.Verify(h, []webhook.Secret{secret(t, knownSecret)}, knownTime, body); err == nil {
			t.Error("forged")
		}
		return time.Since(began)
	}
	many := strings.Repeat(knownSum+" ", 1000)
	one := min(took(knownSum), took(knownSum), took(knownSum))
	if all := min(took(many), took(many), took(many)); all > 50*one {
		t.Errorf("a thousand signatures take %v, one takes %v", all, one)
	}
}

func TestAnEventIsAcknowledgedByAnyTwoHundredAndNothingElse(t *testing.T) {
	s := webhook.NewSecret()
	for status, want := range map[int]string{200: "", 204: "", 301: "301", 400: "400", 410: webhook.ErrGone.Error(), 500: "500"} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if id, err := webhook.Verify(r.Header, []webhook.Secret{s}, time.Now(), body); err != nil || id != "e1" || !bytes.Equal(body, []byte(`{"a":1}`)) {
					t.Errorf("received %q %s: %v", id, body, err)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("secret words"))
			}))
			defer server.Close()
			client := webhook.NewClient(true)
			defer client.Close()
			reached, err := client.Send(t.Context(), webhook.Event{ID: "e1", URL: server.URL + "/token", Body: []byte(`{"a":1}`), Secrets: []webhook.Secret{s}})
			if !reached || want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Fatalf("got %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "secret words")) {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}

func TestAnAddressInsideTheNetworkIsNeverCalled(t *testing.T) {
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer server.Close()
	client := webhook.NewClient(false)
	defer client.Close()
	local := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // a name, which only its resolving gives away
	if reached, err := client.Send(t.Context(), webhook.Event{ID: "e", URL: local}); reached || err == nil || !strings.Contains(err.Error(), "public") || called {
		t.Fatalf("called %t, %v", called, err)
	}
}

func TestWhatGoesWrongIsToldInOurOwnWords(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte("SSH-2.0-secret words\r\n\r\n"))
			conn.Close()
		}
	}()
	distrusted := httptest.NewTLSServer(http.NotFoundHandler())
	distrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer distrusted.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	client := webhook.NewClient(true)
	defer client.Close()
	for url, want := range map[string]string{
		"http://" + listener.Addr().String() + "/token": "does not speak HTTP",
		distrusted.URL + "/token":                       "certificate is not valid",
		"http://" + closed.Addr().String() + "/token":   "connection refused",
		"http://token.invalid/token":                    "name was not found",
	} {
		_, err := client.Send(t.Context(), webhook.Event{ID: "e", URL: url})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
		for _, theirs := range []string{"secret", "token", "127.0.0.1", "Acme"} {
			if err != nil && strings.Contains(err.Error(), theirs) {
				t.Errorf("%s: the error tells of %q: %v", url, theirs, err)
			}
		}
	}
}

func TestAnAddressIsCheckedWhenItIsGiven(t *testing.T) {
	for raw, ok := range map[string]bool{
		"https://example.org/hook?a=b": true, "https://93.184.216.34/": true,
		"http://example.org/": false, "ftp://example.org/": false, "https://": false, "": false, "example.org": false,
		"https://user:pw@example.org/": false, "https://example.org/#x": false, "https://" + strings.Repeat("a", 2048): false,
		"https://127.0.0.1/": false, "https://10.1.2.3/": false, "https://169.254.169.254/latest": false, "https://[::1]/": false,
		"https://[fd00::1]/": false, "https://[::ffff:10.0.0.1]/": false, "https://100.64.0.1/": false, "https://0.0.0.0/": false, "https://[64:ff9b::a00:1]/": false,
		"https://[::7f00:1]/": false, "https://[::ffff:0:7f00:1]/": false, "https://[::ffff:169.254.169.254]/": false, "https://[fd00:ec2::254]/": false, "https://[fec0::1]/": false,
		"https://[fe80::1]/": false, "https://[ff02::1]/": false, "https://[2001:0:7f00:1::]/": false, "https://[2002:7f00:1::]/": false, "https://[2606:4700:4700::1111]/": true,
		"https://:443/": false, "https://example.org:99999/": false, "https://example.org:8443/": true,
		"https://example.org/\xff": false, "https://example.org/a\x00": false,
	} {
		if err := webhook.CheckURL(raw, false); (err == nil) != ok {
			t.Errorf("%.60q: %v", raw, err)
		}
	}
	if err := webhook.CheckURL("http://127.0.0.1:9/hook", true); err != nil {
		t.Errorf("a local receiver: %v", err)
	}
}

func TestAnEventIsSentTenTimesInThreeDaysAndThenGivenUp(t *testing.T) {
	var total time.Duration
	for n := 1; ; n++ {
		wait, again := webhook.Wait(n)
		if !again {
			if n != 10 || total < 72*time.Hour || total > 80*time.Hour {
				t.Errorf("given up after %d failures and %v", n, total)
			}
			break
		}
		total += wait
	}
	if _, again := webhook.Wait(0); again {
		t.Error("a wait without a failure")
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(knownID, "1614265330", knownSum, []byte(knownBody))
	f.Add("", "-1", "v1, v1a,=", []byte{0})
	s, err := webhook.ParseSecret("whsec_" + strings.Repeat("AAAA", 8))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte) {
		h := http.Header{webhook.HeaderID: {id}, webhook.HeaderTimestamp: {stamp}, webhook.HeaderSignature: {signature}}
		if _, err := webhook.Verify(h, []webhook.Secret{s}, knownTime, body); err == nil {
			t.Fatal("forged")
		}
	})
}
