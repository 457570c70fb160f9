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

// ensure leaves a valid key in the file.
func (k *ownKey) ensure(ctx context.Context) error {
	return keyFile(ctx, k.record, ownKeyName, 0, k.path)
}

// keyFile leaves a valid key in the file, readable by its owner alone. The one that it replaces ends.
func keyFile(ctx context.Context, record *job.Store, name string, lifetime time.Duration, path string) error {
	secret, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the key file: %w", err)
	}
	if _, err := record.CheckKey(ctx, strings.TrimSpace(string(secret))); err == nil || !errors.Is(err, job.ErrKey) {
		return err
	}
	return replaceKey(ctx, record, name, lifetime, func(secret string) error { return writeSecret(path, secret) })
}

// replaceKey makes the local operator's key of a name; once its secret is delivered, those of the same name end.
func replaceKey(ctx context.Context, record *job.Store, name string, lifetime time.Duration, deliver func(secret string) error) error {
	unlimited := true
	if _, err := record.CreateAccount(ctx, api.Tenant, job.Limits{Unlimited: &unlimited}, name); err != nil {
		return err
	}
	older, err := record.Keys(ctx, api.Tenant)
	if err != nil {
		return err
	}
	key, err := record.CreateKey(ctx, job.KeyRequest{Tenant: api.Tenant, Name: name, Scopes: job.AllScopes(), Lifetime: lifetime}, name)
	if err != nil {
		return err
	}
	if err := deliver(key.Secret); err != nil {
		return err
	}
	for _, old := range older {
		if old.Name == name && old.RevokedAt == nil {
			err = errors.Join(err, record.RevokeKey(ctx, old.ID, name))
		}
	}
	return err
}

// FirstKey is how the operator of a record gets in when no key is at hand: it belongs to the account local, which is opened,
// may do everything and can be made again at any time, which ends the one before. Who can make it has the record's URL.
type FirstKey struct {
	Record   *job.Store
	Lifetime time.Duration // zero: until it is replaced or revoked
}

const firstKeyName = "first key"

// Deliver makes the key and hands its secret over.
func (k FirstKey) Deliver(ctx context.Context, deliver func(secret string) error) error {
	return replaceKey(ctx, k.Record, firstKeyName, k.Lifetime, deliver)
}

// Write leaves a valid key in the file, with mode 0600; one that is valid stays.
func (k FirstKey) Write(ctx context.Context, path string) error {
	return keyFile(ctx, k.Record, firstKeyName, k.Lifetime, path)
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
