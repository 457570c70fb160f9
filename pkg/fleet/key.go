package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// KeyFile is the name, in a local fleet's state directory, of the key that its own user's commands send.
const KeyFile = "key"

// ownKeyName is how the key is called in the list of keys.
const ownKeyName = "fleet up"

const keyTimeout = 10 * time.Second

// ownKey is the key of the person who runs a local fleet. Without it, the first key that is made would lock them out.
type ownKey struct {
	record *job.Store
	path   string
	log    *zap.Logger
	once   sync.Once
}

// made writes the key when the first one has been made while the fleet runs.
func (k *ownKey) made() {
	k.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), keyTimeout)
		defer cancel()
		if err := k.ensure(ctx); err != nil {
			k.log.Error("the key of this fleet's user was not written; it is at the next start", zap.Error(err))
		}
	})
}

// afterFirst writes the key at a start, if there are keys.
func (k *ownKey) afterFirst(ctx context.Context) error {
	keys, err := k.record.HasKeys(ctx)
	if err != nil || !keys {
		return err
	}
	k.once.Do(func() { err = k.ensure(ctx) })
	return err
}

// ensure leaves a valid key in the file, readable by its owner alone. The one that it replaces ends.
func (k *ownKey) ensure(ctx context.Context) error {
	secret, err := os.ReadFile(k.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the key file: %w", err)
	}
	if _, err := k.record.CheckKey(ctx, strings.TrimSpace(string(secret))); err == nil || !errors.Is(err, job.ErrKey) {
		return err
	}
	unlimited := true
	if _, err := k.record.CreateAccount(ctx, api.Tenant, job.Limits{Unlimited: &unlimited}, ownKeyName); err != nil {
		return err
	}
	older, err := k.record.Keys(ctx, api.Tenant)
	if err != nil {
		return err
	}
	key, err := k.record.CreateKey(ctx, job.KeyRequest{Tenant: api.Tenant, Name: ownKeyName, Scopes: job.AllScopes()}, ownKeyName)
	if err != nil {
		return err
	}
	if err := writeSecret(k.path, key.Secret); err != nil {
		return err
	}
	for _, old := range older {
		if old.Name == ownKeyName && old.RevokedAt == nil {
			err = errors.Join(err, k.record.RevokeKey(ctx, old.ID, ownKeyName))
		}
	}
	return err
}

// writeSecret replaces a file by one that nobody else could ever read.
func writeSecret(path, secret string) error {
	beside := path + ".new"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the key file: %w", err)
	}
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	_, err = file.WriteString(secret + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}
