package provider

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// Defaults and bounds of Anthropic.
const (
	DefaultAnthropicModel = anthropic.ModelClaudeSonnet5_5
	AnthropicTimeout      = 2 * time.Minute // for one call
	maxReply              = 1 << 20         // bytes of an answer, many times what MaxTokens of a Question make
	anthropicName         = "anthropic"
)

// Anthropic answers language and vision questions with Anthropic's Messages API and its structured outputs.
// Only the settings it is given count; the SDK's own environment variables and retries are off.
type Anthropic struct {
	client anthropic.Client
	model  string
}

// NewAnthropic returns the model at Anthropic's own address, or at another base that speaks the same API.
func NewAnthropic(key, base, model string) (*Anthropic, error) {
	options := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithRequestTimeout(AnthropicTimeout), option.WithHTTPClient(&http.Client{Transport: bounded{}, CheckRedirect: noRedirect})}
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, errors.New(AnthropicURL + " must be an http or https address")
		}
		options = append(options, option.WithBaseURL(base))
	}
	if model == "" {
		model = DefaultAnthropicModel
	}
	return &Anthropic{client: anthropic.NewClient(options...), model: model}, nil
}

// bounded cuts answers off: the SDK reads them into memory, however long they are.
type bounded struct{}

func (bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxReply), response.Body}
	return response, nil
}

// Answer implements Language.
func (a *Anthropic) Answer(ctx context.Context, q Question) (json.RawMessage, error) {
	return a.ask(ctx, KindLanguage, q, anthropic.NewTextBlock(q.Input))
}

// Look implements Vision.
func (a *Anthropic) Look(ctx context.Context, q Question, pictures []Picture) (json.RawMessage, error) {
	var blocks []anthropic.ContentBlockParamUnion
	for _, p := range pictures {
		blocks = append(blocks, anthropic.NewTextBlock(p.Label),
			anthropic.NewImageBlockBase64("image/jpeg", base64.StdEncoding.EncodeToString(p.JPEG)))
	}
	return a.ask(ctx, KindVision, q, append(blocks, anthropic.NewTextBlock(q.Input))...)
}

func (a *Anthropic) ask(ctx context.Context, kind string, q Question, blocks ...anthropic.ContentBlockParamUnion) (_ json.RawMessage, err error) {
	defer timed(ctx, kind, time.Now(), &err)
	spend(ctx, Usage{Requests: 1})
	message, err := a.client.Messages.New(ctx, anthropic.MessageNewParams{
		Model:        a.model,
		MaxTokens:    q.MaxTokens,
		System:       []anthropic.TextBlockParam{{Text: q.Instructions}},
		Messages:     []anthropic.MessageParam{anthropic.NewUserMessage(blocks...)},
		OutputConfig: anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: q.Schema}},
	})
	if err != nil {
		return nil, a.failed(ctx, err)
	}
	u := message.Usage
	spend(ctx, Usage{InputTokens: u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens, OutputTokens: u.OutputTokens})
	if message.StopReason == anthropic.StopReasonRefusal {
		return nil, ErrDeclined
	}
	for _, block := range message.Content {
		if block.Type == "text" && json.Valid([]byte(block.Text)) {
			return json.RawMessage(block.Text), nil
		}
	}
	return nil, unreadable(anthropicName, "valid JSON")
}

// failed drops the SDK's error, which quotes the answer, and keeps what it means.
func (a *Anthropic) failed(ctx context.Context, err error) error {
	var answer *anthropic.Error
	if !errors.As(err, &answer) {
		return unreachable(ctx, anthropicName)
	}
	header := http.Header{}
	if answer.Response != nil {
		header = answer.Response.Header
	}
	return failed(anthropicName, answer.StatusCode, header, []byte(answer.RawJSON()))
}
