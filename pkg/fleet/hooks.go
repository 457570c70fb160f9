package fleet

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

const (
	hooksEvery = time.Second // between looks for reports that are due
	hooksBatch = 32          // under way at once
)

// hookRecord is what the sending of webhooks needs of the record.
type hookRecord interface {
	DueHooks(ctx context.Context, limit int) ([]job.DueHook, error)
	HookDone(ctx context.Context, h job.DueHook, r job.HookResult) error
	HookSecrets(ctx context.Context, tenant, fresh string) ([]string, error)
}

// hookSender is who delivers one event.
type hookSender interface {
	Send(ctx context.Context, e webhook.Event) (reached bool, err error)
}

// hooks reports the ends of jobs to those who asked, until ctx ends.
type hooks struct {
	record hookRecord
	to     hookSender
	log    *zap.Logger
}

func (h hooks) run(ctx context.Context) error {
	tick := time.NewTicker(hooksEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			h.round(ctx)
		}
	}
}

// round sends what is due and waits for all of it: the share of a tenant whose receiver is slow stays small.
func (h hooks) round(ctx context.Context) {
	due, err := h.record.DueHooks(ctx, hooksBatch)
	if err != nil && ctx.Err() == nil {
		h.log.Warn("webhooks not looked for", zap.Error(err))
	}
	var all sync.WaitGroup
	for _, hook := range due {
		all.Go(func() { h.send(ctx, hook) })
	}
	all.Wait()
}

func (h hooks) send(ctx context.Context, hook job.DueHook) {
	secrets, err := h.secrets(ctx, hook.Tenant)
	if err != nil {
		h.log.Warn("webhook not signed", zap.String("webhook", hook.ID), zap.Error(err))
		return // it is due again when its lease has ended
	}
	reached, err := h.to.Send(ctx, webhook.Event{ID: hook.ID, URL: hook.URL, Body: hook.Body, Secrets: secrets})
	if ctx.Err() != nil {
		return
	}
	result := resultOf(hook.Failures, reached, err)
	if err != nil {
		h.log.Info("webhook not acknowledged", zap.String("webhook", hook.ID), zap.Int("failures", result.Failures),
			zap.String("state", string(result.State)), zap.Error(err))
	}
	if err := h.record.HookDone(ctx, hook, result); err != nil {
		h.log.Warn("webhook not settled", zap.String("webhook", hook.ID), zap.Error(err))
	}
}

// resultOf is what one more try has made of a webhook.
func resultOf(failures int, reached bool, err error) job.HookResult {
	if err == nil {
		return job.HookResult{State: job.HookAcknowledged, Failures: failures}
	}
	wait, again := webhook.Wait(failures + 1)
	r := job.HookResult{State: job.HookPending, Failures: failures + 1, Again: wait}
	switch {
	case !again || errors.Is(err, webhook.ErrGone):
		r.State, r.Again = job.HookGivenUp, 0
	case reached:
		r.State = job.HookSent
	}
	return r
}

func (h hooks) secrets(ctx context.Context, tenant string) ([]webhook.Secret, error) {
	texts, err := h.record.HookSecrets(ctx, tenant, webhook.NewSecret().Text())
	var secrets []webhook.Secret
	for _, text := range texts {
		s, parseErr := webhook.ParseSecret(text)
		err = errors.Join(err, parseErr)
		secrets = append(secrets, s)
	}
	return secrets, err
}

// EnvProviders is the variable that holds the secrets by which providers sign their events.
const EnvProviders = "FLEET_PROVIDER_SECRETS"

// ParseProviders reads secrets such as "speech=whsec_...,speech=whsec_...,vision=whsec_...". A provider with two is changing
// its secret: events signed with either are taken. The error shows no secret.
func ParseProviders(text string) (map[string][]webhook.Secret, error) {
	providers := map[string][]webhook.Secret{}
	for n, entry := range strings.Split(text, ",") {
		name, secret, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if text == "" {
			break
		}
		parsed, err := webhook.ParseSecret(secret)
		if err != nil || !providerName.MatchString(name) {
			return nil, fmt.Errorf("%s: entry %d must be name=whsec_..., the name of a-z, 0-9 and dash, the secret 24 to 64 bytes in base64", EnvProviders, n+1)
		}
		providers[name] = append(providers[name], parsed)
	}
	return providers, nil
}

var providerName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
