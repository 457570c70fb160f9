package job

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// ErrKey is matched by the error of a key that permits nothing; its text says why only to who has the whole secret.
var ErrKey = errors.New("the API key is not valid")

const (
	keyPrefix   = "fleet_" // by which secret scanners know one
	maxName     = 200
	usedEvery   = time.Minute
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// Key is what is known of an API key; its secret is not.
type Key struct {
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`
	Name      string     `json:"name"` // for people
	Scopes    Scopes     `json:"scopes"`
	PerMinute int64      `json:"per_minute"` // requests; zero: the server's default
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	UsedAt    *time.Time `json:"used_at,omitempty"` // to the minute
}

// KeyRequest asks for a key.
type KeyRequest struct {
	Tenant    string
	Name      string
	Scopes    Scopes
	PerMinute int64         // requests; zero: the server's default
	Lifetime  time.Duration // zero: until it is revoked
}

// NewKey is a key and, this once, its secret.
type NewKey struct {
	Key
	Secret string `json:"secret"`
}

func (r KeyRequest) validate() error {
	switch {
	case !envelope.ValidID(r.Tenant):
		return ErrNotFound // no account is called so
	case len(r.Scopes) == 0:
		return &Invalid{"A key needs at least one scope: submit, view or operate."}
	case len(r.Name) > maxName || !PlainText(r.Name):
		return &Invalid{fmt.Sprintf("A key's name has at most %d bytes of UTF-8 and no control characters.", maxName)}
	case r.PerMinute < 0:
		return &Invalid{"A key's requests per minute are 0, for the default, or more."}
	case r.Lifetime < 0 || r.Lifetime > maxLifetime:
		return &Invalid{"A key lives at most ten years."}
	}
	_, err := ParseScopes(r.Scopes.String())
	return err
}

// CreateKey makes a key of a tenant that has an account. The secret is 256 random bits, so that its plain SHA-256 is kept:
// slow hashes are for what people can guess. ErrNotFound without such an account, *Invalid for values that no key can have.
func (s *Store) CreateKey(ctx context.Context, r KeyRequest, who string) (NewKey, error) {
	if err := r.validate(); err != nil {
		return NewKey{}, err
	}
	id, secret := newSecret()
	err := s.audited(ctx, who, "create_key", id, r.Tenant+" "+r.Scopes.String(), func(tx *sqldb.Tx) error {
		return insertKey(ctx, tx, id, secret, r)
	})
	return s.newKey(ctx, id, secret, err)
}

func insertKey(ctx context.Context, tx *sqldb.Tx, id, secret string, r KeyRequest) error {
	n, err := tx.Exec(ctx, q("insert_key"), id, r.Tenant, hashOf(secret), r.Scopes.String(), r.Name, r.PerMinute, r.Lifetime.Microseconds())
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

func (s *Store) newKey(ctx context.Context, id, secret string, err error) (NewKey, error) {
	if err != nil {
		return NewKey{}, err
	}
	row, err := s.key(ctx, id)
	return NewKey{Key: row.Key, Secret: secret}, err
}

// RotateKey makes a key that may do what another may for as long a lifetime, from now on, and lets the other live for the overlap and
// no longer, so that its users can be changed one by one. ErrNotFound when there is no such key, ErrEnded when it has expired or was revoked.
func (s *Store) RotateKey(ctx context.Context, id string, overlap time.Duration, who string) (NewKey, error) {
	if overlap < 0 || overlap > maxLifetime {
		return NewKey{}, &Invalid{"The overlap is 0 or more and at most ten years."}
	}
	fresh, secret := newSecret()
	err := s.audited(ctx, who, "rotate_key", id, fresh, func(tx *sqldb.Tx) error {
		old, err := readKey(ctx, tx, id)
		if err != nil {
			return err
		}
		if old.dead() != "" {
			return ErrEnded
		}
		if _, err := tx.Exec(ctx, q("expire_key"), id, overlap.Microseconds()); err != nil {
			return err
		}
		return insertKey(ctx, tx, fresh, secret, old.successor())
	})
	return s.newKey(ctx, fresh, secret, err)
}

// successor asks for a key like this one.
func (k keyRow) successor() KeyRequest {
	return KeyRequest{Tenant: k.Tenant, Name: k.Name, Scopes: k.Scopes, PerMinute: k.PerMinute, Lifetime: micro(k.lifetime)}
}

// RevokeKey ends a key at once. Revoking it again changes nothing; ErrNotFound when there is no such key.
func (s *Store) RevokeKey(ctx context.Context, id, who string) error {
	return s.audited(ctx, who, "revoke_key", id, "", func(tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, q("revoke_key"), id)
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
}

// Keys lists a tenant's keys, or with an empty tenant all, oldest first.
func (s *Store) Keys(ctx context.Context, tenant string) ([]Key, error) {
	var all []Key
	err := s.db.View(ctx, "keys", func(tx *sqldb.Tx) error {
		all = []Key{}
		return tx.Query(ctx, q("keys"), func(scan func(...any) error) error {
			row, err := scanKey(scan)
			all = append(all, row.Key)
			return err
		}, tenant)
	})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return all, nil
}

// HasKeys reports whether a key was ever made: revoking the last one opens nothing.
func (s *Store) HasKeys(ctx context.Context) (bool, error) {
	var n int64
	err := s.db.View(ctx, "any_key", func(tx *sqldb.Tx) error { return tx.One(ctx, q("any_key"), nil, &n) })
	if err != nil {
		return false, fmt.Errorf("look for keys: %w", err)
	}
	return n > 0, nil
}

// CheckKey returns the key of a secret, and notes that it was used. The error matches ErrKey when it permits nothing.
func (s *Store) CheckKey(ctx context.Context, secret string) (Key, error) {
	id, ok := idOf(secret)
	if !ok {
		return Key{}, ErrKey
	}
	row, err := s.key(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Key{}, err
	}
	// An unknown key is compared too, with nothing.
	if subtle.ConstantTimeCompare([]byte(hashOf(secret)), []byte(row.hash)) != 1 {
		return Key{}, ErrKey
	}
	if why := row.dead(); why != "" {
		return Key{}, fmt.Errorf("%w: it %s", ErrKey, why)
	}
	if row.UsedAt == nil || row.now-micros(*row.UsedAt) >= usedEvery.Microseconds() {
		err = s.db.UpdateRelaxed(ctx, "key_used", func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, q("key_used"), id)
			return err
		})
	}
	return row.Key, err
}

// keyRow is a key as it is stored, at the moment now.
type keyRow struct {
	Key
	hash     string
	lifetime int64 // that it was made with; zero: until it is revoked
	now      int64
}

// dead says why a key permits nothing any more.
func (k keyRow) dead() string {
	switch {
	case k.RevokedAt != nil:
		return "was revoked"
	case k.ExpiresAt != nil && micros(*k.ExpiresAt) <= k.now:
		return "has expired"
	}
	return ""
}

func (s *Store) key(ctx context.Context, id string) (keyRow, error) {
	var row keyRow
	err := s.db.View(ctx, "key", func(tx *sqldb.Tx) (err error) {
		row, err = readKey(ctx, tx, id)
		return err
	})
	if err != nil {
		return keyRow{}, fmt.Errorf("read key: %w", err)
	}
	return row, nil
}

func readKey(ctx context.Context, tx *sqldb.Tx, id string) (keyRow, error) {
	var row keyRow
	err := tx.Query(ctx, q("key"), func(scan func(...any) error) (err error) {
		row, err = scanKey(scan)
		return err
	}, id)
	if err == nil && row.ID == "" {
		err = ErrNotFound
	}
	return row, err
}

func scanKey(scan func(...any) error) (keyRow, error) {
	var row keyRow
	var scopes string
	var created, expires, revoked, used int64
	err := scan(&row.ID, &row.Tenant, &row.hash, &scopes, &row.Name, &row.PerMinute, &created, &expires, &revoked, &used, &row.lifetime, &row.now)
	if err != nil {
		return row, err
	}
	row.CreatedAt, row.ExpiresAt, row.RevokedAt, row.UsedAt = timeOf(created), optional(expires), optional(revoked), optional(used)
	row.Scopes, err = ParseScopes(scopes)
	return row, err
}

var keyText = base32.StdEncoding.WithPadding(base32.NoPadding)

// newSecret returns a key's identifier and its secret, which contains it: a lookup by the identifier tells by its time
// nothing of the rest.
func newSecret() (id, secret string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	id = envelope.NewID(time.Now())
	return id, keyPrefix + id + "_" + strings.ToLower(keyText.EncodeToString(random[:]))
}

// idOf is the identifier in a secret.
func idOf(secret string) (string, bool) {
	rest, ok := strings.CutPrefix(secret, keyPrefix)
	id, random, cut := strings.Cut(rest, "_")
	return id, ok && cut && envelope.ValidID(id) && len(random) == keyText.EncodedLen(32)
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
