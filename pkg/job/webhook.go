package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// HookState is how far the report of a job's end to its submitter has come. None of them says that anybody has read it.
type HookState string

// The states of a webhook.
const (
	HookPending      HookState = "pending"      // the receiver has not been reached yet
	HookSent         HookState = "sent"         // it has, at least once, and did not acknowledge; it is sent again
	HookAcknowledged HookState = "acknowledged" // the receiver answered that it has it
	HookGivenUp      HookState = "given_up"     // too many failures, or the receiver wants no more
)

const (
	hooksOfTenant = 4 // under way at once
	hookLease     = time.Minute
	keepHooks     = 30 * 24 * time.Hour
)

// Hook is one report of a job's end.
type Hook struct {
	ID        string     `json:"id"`
	State     HookState  `json:"state"`
	Failures  int        `json:"failures"`
	NextAt    *time.Time `json:"next_at,omitempty"` // of the next try; nil when there is none
	CreatedAt time.Time  `json:"created_at"`
}

// DueHook is a report that a sender has to itself for a minute.
type DueHook struct {
	ID, Tenant, URL string
	Body            []byte
	Failures        int

	lease int64
}

// HookResult is what came of sending a report.
type HookResult struct {
	State    HookState
	Failures int
	Again    time.Duration // until the next try; zero: none
}

type hookRow struct {
	ID   string `json:"id"`
	Job  string `json:"job"`
	Body string `json:"body"`
}

// addHooks adds the reports of the jobs that have ended in this unit. The statement keeps those that somebody asked for.
func (u *unit) addHooks(w *writes) error {
	var rows []hookRow
	for _, j := range u.ended {
		data := hookData{Job: j.ID, Version: j.Version, State: j.State, Recovered: j.Recovered}
		if t := u.targets[j.Target]; t != nil {
			data.Target = t.Name
		}
		if j.Code != "" {
			data.Reason = &Reason{Code: j.Code, Sentence: j.Sentence}
		}
		body, err := json.Marshal(hookBody{Type: "job." + j.State, Timestamp: timeOf(u.now), Data: data})
		if err != nil {
			return fmt.Errorf("encode the report of a job: %w", err)
		}
		rows = append(rows, hookRow{ID: u.newID(), Job: j.ID, Body: string(body)})
	}
	if len(rows) > 0 {
		add(w, "insert_webhooks", rows)
		w.meant[len(w.meant)-1] = anyNumber
	}
	return nil
}

// hookBody is what a receiver gets: the shape that the Standard Webhooks specification proposes.
type hookBody struct {
	Type      string    `json:"type"` // job. and the state in which it ended
	Timestamp time.Time `json:"timestamp"`
	Data      hookData  `json:"data"`
}

type hookData struct {
	Job       string  `json:"job"`
	Target    string  `json:"target"`
	Version   int64   `json:"version"`
	State     string  `json:"state"`
	Reason    *Reason `json:"reason,omitempty"`
	Recovered int64   `json:"recovered,omitempty"`
}

// DueHooks leases up to limit reports that are due to the caller, in the process that leads; in others there are none. It
// passes over the tenants that are busy, those whose reports the caller is sending.
func (s *Store) DueHooks(ctx context.Context, limit int, busy []string) ([]DueHook, error) {
	if !s.leads(ctx) {
		return nil, nil
	}
	due := false
	err := s.db.View(ctx, "webhook_due", func(tx *sqldb.Tx) error { return tx.One(ctx, q("webhook_due"), nil, &due) })
	if err != nil || !due {
		return nil, err
	}
	var hooks []DueHook
	err = s.db.UpdateRelaxed(ctx, "take_webhooks", func(tx *sqldb.Tx) error {
		hooks = nil
		return tx.Query(ctx, q("take_webhooks"), func(scan func(...any) error) error {
			var h DueHook
			var body string
			err := scan(&h.ID, &h.Tenant, &h.URL, &body, &h.Failures, &h.lease)
			h.Body = []byte(body)
			hooks = append(hooks, h)
			return err
		}, hookLease.Microseconds(), hooksOfTenant, limit, sqldb.Rows(idRows(busy)))
	})
	if err != nil {
		return nil, fmt.Errorf("take webhooks that are due: %w", err)
	}
	return hooks, nil
}

// HookDone notes what came of sending a report. It changes nothing when the lease on it has passed to another sender.
func (s *Store) HookDone(ctx context.Context, h DueHook, r HookResult) error {
	err := s.db.UpdateRelaxed(ctx, "settle_webhook", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("settle_webhook"), h.ID, h.lease, string(r.State), r.Failures, r.Again.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("settle webhook: %w", err)
	}
	return nil
}

// Hooks lists the reports of a job's ends, oldest first. They are kept for 30 days.
func (s *Store) Hooks(ctx context.Context, tenant, job string) ([]Hook, error) {
	var hooks []Hook
	err := s.db.View(ctx, "webhooks", func(tx *sqldb.Tx) error {
		hooks = []Hook{}
		return tx.Query(ctx, q("webhooks"), func(scan func(...any) error) error {
			var h Hook
			var next, created int64
			err := scan(&h.ID, &h.State, &h.Failures, &next, &created)
			h.NextAt, h.CreatedAt = optional(next), timeOf(created)
			hooks = append(hooks, h)
			return err
		}, tenant, job)
	})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	return hooks, nil
}

// HookSecrets returns the texts of the secrets that sign a tenant's events, the current one first. fresh becomes the current one if
// there is none.
func (s *Store) HookSecrets(ctx context.Context, tenant, fresh string) ([]string, error) {
	secrets, err := s.strings(ctx, "webhook_secrets", tenant)
	if err != nil || len(secrets) > 0 {
		return secrets, err
	}
	err = s.db.Update(ctx, "make_webhook_secret", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("make_webhook_secret"), tenant, fresh)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make webhook secret: %w", err)
	}
	return s.strings(ctx, "webhook_secrets", tenant)
}

// RotateHookSecret makes fresh the tenant's current secret. The one before signs too until overlap has passed.
func (s *Store) RotateHookSecret(ctx context.Context, tenant, fresh, who string, overlap time.Duration) error {
	for {
		made := int64(0)
		err := s.db.Update(ctx, "rotate_webhook_secret", func(tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, q("retire_webhook_secret"), tenant, overlap.Microseconds()); err != nil {
				return err
			}
			var err error
			if made, err = tx.Exec(ctx, q("make_webhook_secret"), tenant, fresh); err != nil || made == 0 {
				return err
			}
			return audit(ctx, tx, who, "rotate_webhook_secret", tenant, "")
		})
		if err != nil {
			return fmt.Errorf("rotate webhook secret: %w", err)
		}
		if made == 1 { // else somebody else has rotated at the same moment: theirs is retired now
			return nil
		}
	}
}
