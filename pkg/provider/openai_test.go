package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// canary stands for what was said or answered: no error may quote it.
const canary = "canary-zanzibar"

func sound(t *testing.T) Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audio.wav")
	if err := os.WriteFile(path, []byte(strings.Repeat("sound ", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	return Recording{Path: path, DurationMs: 1000}
}

func speechAt(t *testing.T, h http.HandlerFunc) *OpenAISpeech {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	speech, err := NewOpenAISpeech(s.URL+"/v1/", "key", "model-x")
	if err != nil {
		t.Fatal(err)
	}
	return speech
}

// quotesNothing fails if an error gives away more than codes.
func quotesNothing(t *testing.T, err error) {
	t.Helper()
	if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "127.0.0.1")) {
		t.Errorf("the error says %q", err)
	}
}

func TestSpeechIsUploadedAsOneStreamOfKnownLength(t *testing.T) {
	r := sound(t)
	want, err := os.ReadFile(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	speech := speechAt(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/v1/audio/transcriptions" || req.Header.Get("Authorization") != "Bearer key" || req.ContentLength < int64(len(want)) {
			t.Errorf("%s with length %d", req.URL.Path, req.ContentLength)
		}
		file, header, err := req.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		if got, _ := io.ReadAll(file); !slices.Equal(got, want) || header.Filename != "audio.wav" {
			t.Errorf("got %d bytes as %s", len(got), header.Filename)
		}
		if form := req.MultipartForm.Value; form["model"][0] != "model-x" || form["response_format"][0] != "verbose_json" || !slices.Equal(form["timestamp_granularities[]"], []string{"word", "segment"}) {
			t.Errorf("form %v", form)
		}
		_, _ = io.WriteString(w, `{"text":"Hello there.","words":[{"word":" Hello","start":0.1,"end":0.4},{"word":"there.","start":2.5,"end":2.5}],
			"segments":[{"start":0,"end":1,"avg_logprob":-0.5},{"start":1,"end":3,"avg_logprob":0}]}`)
	})
	got, err := speech.Transcribe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	words := []recording.Word{{Text: "Hello", StartMs: 100, EndMs: 400, Confidence: 0.6065306597126334}, {Text: "there.", StartMs: 2500, EndMs: 2501, Confidence: 1}}
	if got.Engine != "model-x" || !slices.Equal(got.Words, words) {
		t.Fatalf("got %+v", got)
	}
}

func TestSoundTooLargeForAnUploadIsCompressed(t *testing.T) {
	dir := t.TempDir()
	wav := filepath.Join(dir, "in.wav")
	tools := media.Runner{Dir: dir}
	if _, err := tools.Run(t.Context(), "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:r=16000:d=5", wav); err != nil {
		t.Fatal(err)
	}
	sent := ""
	speech := speechAt(t, func(w http.ResponseWriter, req *http.Request) {
		if file, header, err := req.FormFile("file"); err == nil {
			start := make([]byte, 4)
			_, _ = io.ReadFull(file, start)
			sent = header.Filename + " " + string(start)
		}
		_, _ = io.WriteString(w, `{"text":""}`)
	})
	for limit, want := range map[int64]string{160_044 - 1: "audio.ogg OggS", 1 << 20: "audio.wav RIFF"} {
		speech.maxUpload = limit
		if _, err := speech.Transcribe(t.Context(), Recording{Path: wav, DurationMs: 5000, Tools: tools}); err != nil || sent != want {
			t.Errorf("limit %d: sent %q, %v", limit, sent, err)
		}
	}
}

func TestAnswersOfAllKindsHaveTheirEnds(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		body       string
		kind       outcome.Kind
		reason     string
		after      time.Duration
	}{
		"nothing said":       {200, "", `{"text":" "}`, outcome.KindDone, "", 0},
		"no word times":      {200, "", `{"text":"` + canary + `"}`, outcome.KindRetry, ReasonAnswer, 0},
		"not JSON":           {200, "", canary, outcome.KindRetry, ReasonAnswer, 0},
		"rate limit":         {429, "12", `{"error":{"message":"` + canary + `"}}`, outcome.KindRetry, "provider_http_429", 12 * time.Second},
		"rate limit, silent": {429, "", `{"error":{"type":"rate_limit_error"}}`, outcome.KindRetry, "provider_http_429", 0},
		"quota":              {429, "", `{"error":{"code":"insufficient_quota"}}`, outcome.KindQuarantine, ReasonSpendLimit, 0},
		"overloaded":         {503, "3", "", outcome.KindRetry, "provider_http_503", 3 * time.Second},
		"fault":              {500, "3", canary, outcome.KindRetry, "provider_http_500", 0},
		"timeout":            {408, "", "", outcome.KindRetry, "provider_http_408", 0},
		"key":                {401, "", canary, outcome.KindQuarantine, ReasonCredentials, 0},
		"no such model":      {404, "", "", outcome.KindQuarantine, ReasonRequest, 0},
		"not understood":     {400, "", `{"error":{"message":"` + canary + `"}}`, outcome.KindQuarantine, ReasonRequest, 0},
		"moved":              {302, "", "", outcome.KindQuarantine, ReasonRequest, 0},
		"too large":          {413, "", canary, outcome.KindReject, ReasonTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			speech := speechAt(t, func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				w.Header().Set("Retry-After", c.retryAfter)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := speech.Transcribe(t.Context(), sound(t))
			if v := outcome.Of(err); v.Kind != c.kind || v.Reason != c.reason && c.kind != outcome.KindDone || v.After != c.after {
				t.Errorf("ended %+v", v)
			}
			quotesNothing(t, err)
		})
	}
}

func TestAServerThatIsGoneIsTriedAgainLater(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	speech, err := NewOpenAISpeech(s.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = speech.Transcribe(t.Context(), sound(t))
	if outcome.Of(err).Kind != outcome.KindRetry {
		t.Errorf("got %v", err)
	}
	quotesNothing(t, err)
}

func TestTheEndOfTheContextEndsACall(t *testing.T) {
	cause := errors.New("the reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	arrived, release := make(chan struct{}), make(chan struct{})
	speech := speechAt(t, func(_ http.ResponseWriter, _ *http.Request) { close(arrived); <-release })
	defer close(release)
	go func() { <-arrived; cancel(cause) }()
	if _, err := speech.Transcribe(ctx, sound(t)); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
}

func TestAddressesThatCannotWorkAreNamed(t *testing.T) {
	for _, base := range []string{"api.openai.com", "ftp://x", "http://", "http://x?key=secret", "::"} {
		_, err := NewOpenAISpeech(base, "", "")
		if err == nil || !strings.Contains(err.Error(), SpeechURL) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func FuzzVerbose(f *testing.F) {
	f.Add([]byte(`{"words":[{"word":"a","start":1e308,"end":1e309},{"word":"b","start":5,"end":1}],"segments":[{"end":1,"avg_logprob":5}]}`))
	f.Add([]byte(`{"words":[{"word":"a","start":0.1,"end":0.1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		words, err := parseVerbose(body)
		if err != nil {
			return
		}
		for _, w := range words {
			if w.Text == "" || w.StartMs < 0 || w.EndMs <= w.StartMs || !(w.Confidence >= 0 && w.Confidence <= 1) {
				t.Fatalf("heard %+v", w)
			}
		}
	})
}
