package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

const (
	hooksEvery = time.Second // between looks for reports that are due
	hooksBatch = 32          // under way at once
)

// hookRecord is what the sending of webhooks needs of the record.
type hookRecord interface {
	DueHooks(ctx context.Context, limit int, busy []string) ([]job.DueHook, error)
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
	inside hookSender // for the account of a local fleet's operator: also calls addresses that only this machine has; nil: nobody's
	log    *zap.Logger
}

// sender is who delivers a tenant's events.
func (h hooks) sender(tenant string) hookSender {
	if tenant == api.Tenant && h.inside != nil {
		return h.inside
	}
	return h.to
}

func (h hooks) run(ctx context.Context) error {
	tick := time.NewTicker(hooksEvery)
	defer tick.Stop()
	busy, ended := map[string]int{}, make(chan string, hooksBatch) // by tenant
	under := 0
	for {
		select {
		case <-ctx.Done():
			for range under {
				<-ended
			}
			return nil
		case tenant := <-ended:
			if busy[tenant]--; busy[tenant] == 0 {
				delete(busy, tenant)
			}
			if under--; busy[tenant] > 0 {
				continue
			}
		case <-tick.C:
		}
		for _, hook := range h.due(ctx, hooksBatch-under, busy) {
			under++
			busy[hook.Tenant]++
			go func() {
				h.send(ctx, hook)
				ended <- hook.Tenant
			}()
		}
	}
}

// due are the reports to be sent now.
func (h hooks) due(ctx context.Context, limit int, busy map[string]int) []job.DueHook {
	if limit == 0 {
		return nil
	}
	due, err := h.record.DueHooks(ctx, limit, slices.Sorted(maps.Keys(busy)))
	if err != nil && ctx.Err() == nil {
		h.log.Warn("webhooks not looked for", zap.Error(err))
	}
	return due
}

func (h hooks) send(ctx context.Context, hook job.DueHook) {
	secrets, err := h.secrets(ctx, hook.Tenant)
	if err != nil {
		h.log.Warn("webhook not signed", zap.String("webhook", hook.ID), zap.Error(err))
		return // it is due again when its lease has ended
	}
	reached, err := h.sender(hook.Tenant).Send(ctx, webhook.Event{ID: hook.ID, URL: hook.URL, Body: hook.Body, Secrets: secrets})
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
