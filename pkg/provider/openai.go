package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Defaults and bounds of OpenAISpeech.
const (
	DefaultSpeechModel = "whisper-1"
	SpeechTimeout      = 10 * time.Minute // for one call, upload and answer
	MaxUpload          = 24 << 20         // bytes of WAV; longer sound is sent as Opus (OpenAI's API reference allows 25 MB)
	maxAnswer          = 64 << 20         // bytes
	speechName         = "speech provider"
)

// OpenAISpeech asks a server that speaks OpenAI's "Create transcription" call, and wants word times from it
// (response_format verbose_json). The address is base + "/audio/transcriptions".
type OpenAISpeech struct {
	endpoint string
	key      string
	model    string
	client   *http.Client

	maxUpload int64
}

// NewOpenAISpeech returns a Speech at base, an http or https address without query. key may be empty.
func NewOpenAISpeech(base, key, model string) (*OpenAISpeech, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" {
		return nil, errors.New(SpeechURL + " must be an http or https address without a query")
	}
	if model == "" {
		model = DefaultSpeechModel
	}
	return &OpenAISpeech{
		endpoint: strings.TrimSuffix(base, "/") + "/audio/transcriptions",
		key:      key,
		model:    model,
		client:   &http.Client{Timeout: SpeechTimeout, CheckRedirect: noRedirect},

		maxUpload: MaxUpload,
	}, nil
}

// noRedirect keeps a recording from being posted to an address that nobody configured.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Transcribe implements Speech. The file is streamed, never held in memory.
func (s *OpenAISpeech) Transcribe(ctx context.Context, r Recording) (_ Transcript, err error) {
	path, err := s.small(ctx, r)
	if err != nil {
		return Transcript{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Transcript{}, errors.New("open the sound file: it cannot be read")
	}
	defer file.Close()
	request, err := s.request(ctx, file)
	if err != nil {
		return Transcript{}, err
	}
	defer timed(ctx, KindSpeech, time.Now(), &err)
	spend(ctx, Usage{Requests: 1})
	response, err := s.client.Do(request)
	if err != nil {
		return Transcript{}, unreachable(ctx, speechName)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return Transcript{}, unreachable(ctx, speechName)
	case response.StatusCode != http.StatusOK:
		return Transcript{}, failed(speechName, response.StatusCode, response.Header, body)
	}
	words, err := parseVerbose(body)
	return Transcript{Words: words, Engine: s.model}, err
}

// small returns the sound in a file that may be uploaded.
func (s *OpenAISpeech) small(ctx context.Context, r Recording) (string, error) {
	info, err := os.Stat(r.Path)
	if err != nil {
		return "", errors.New("measure the sound file: it cannot be read")
	}
	if info.Size() <= s.maxUpload {
		return r.Path, nil
	}
	if err := r.Tools.Compress(ctx, r.Path, compressed); err != nil {
		return "", fmt.Errorf("compress the sound: %w", err)
	}
	return filepath.Join(r.Tools.Dir, compressed), nil
}

// compressed is the name of the file that small makes; servers tell formats by the extension.
const compressed = "audio.ogg"

// request builds the form around the file, so that its length is known and the file is read as it is sent.
func (s *OpenAISpeech) request(ctx context.Context, file *os.File) (*http.Request, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, errors.New("measure the sound file: it cannot be read")
	}
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	for _, field := range [][2]string{{"model", s.model}, {"response_format", "verbose_json"}, {"timestamp_granularities[]", "word"}, {"timestamp_granularities[]", "segment"}} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return nil, fmt.Errorf("build the form: %w", err)
		}
	}
	if _, err := form.CreateFormFile("file", "audio"+filepath.Ext(file.Name())); err != nil {
		return nil, fmt.Errorf("build the form: %w", err)
	}
	tail := "\r\n--" + form.Boundary() + "--\r\n"
	length := int64(head.Len()) + info.Size() + int64(len(tail))
	body := io.MultiReader(&head, io.LimitReader(file, info.Size()), strings.NewReader(tail))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, io.NopCloser(body))
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	request.ContentLength = length
	request.Header.Set("Content-Type", form.FormDataContentType())
	if s.key != "" {
		request.Header.Set("Authorization", "Bearer "+s.key)
	}
	return request, nil
}

type verbose struct {
	Words *[]struct {
		Word       string  `json:"word"`
		Start, End float64 // seconds
	} `json:"words"`
	Text     string `json:"text"`
	Segments []struct {
		Start, End float64
		LogProb    float64 `json:"avg_logprob"`
	} `json:"segments"`
}

// parseVerbose reads a verbose_json answer. It has no confidence for a word, so each gets that of its segment.
func parseVerbose(body []byte) ([]recording.Word, error) {
	var answer verbose
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, unreadable(speechName, "valid JSON")
	}
	if answer.Words == nil {
		if strings.TrimSpace(answer.Text) == "" {
			return nil, nil // nothing was said
		}
		return nil, unreadable(speechName, "word times")
	}
	var words []recording.Word
	segment := 0
	for _, w := range *answer.Words {
		for segment+1 < len(answer.Segments) && w.Start >= answer.Segments[segment].End {
			segment++
		}
		confidence := 0.0
		if segment < len(answer.Segments) {
			confidence = math.Exp(answer.Segments[segment].LogProb)
		}
		if word, ok := wordOf(strings.TrimSpace(w.Word), w.Start, w.End, confidence); ok {
			words = append(words, word)
		}
	}
	return words, nil
}
