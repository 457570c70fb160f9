// Package webhook signs, checks and delivers events between systems over HTTP, as the Standard Webhooks specification 1.0.0
// (standardwebhooks.com) has them: headers webhook-id, webhook-timestamp and webhook-signature, an HMAC-SHA256 over all three
// and the raw body.
//
// Promised: Verify says yes only to what a holder of a secret signed within five minutes of now, and never says why not; a
// Client calls no address inside the network it runs in, follows no redirect and waits a bounded time. Not promised: that an
// event arrives, or arrives once. What is sent again has the same webhook-id, by which the receiver knows it.
//
// The signature is a few lines of the standard library: the specification's own Go module takes its time from the wall clock
// and allows one secret at a time.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far a signature's time may be from now, to either side (the specification leaves it to the receiver).
const Tolerance = 5 * time.Minute

// Headers of an event.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes; the specification's bounds
	maxSecret    = 64
	maxID        = 256
)

// ErrSignature means that an event was not signed by a holder of a secret just now. It never says more.
var ErrSignature = errors.New("webhook: the signature is not valid")

// Secret is what both sides of a webhook know. Its zero value signs nothing.
type Secret struct{ key []byte }

// NewSecret makes a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return Secret{key}
}

// ParseSecret reads the text of a secret: whsec_ and 24 to 64 bytes in base64.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("a webhook secret must be %s and %d to %d bytes in base64", secretPrefix, minSecret, maxSecret)
	}
	return Secret{key}, nil
}

// Text is what ParseSecret reads. String does not show it, so that no log does by accident.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// String hides the secret.
func (s Secret) String() string { return secretPrefix + "..." }

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// Sign sets the three headers of an event, with one signature for each secret: while a secret is replaced there are two.
func Sign(h http.Header, secrets []Secret, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, s := range secrets {
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(s.sum(id, stamp, body)))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, stamp)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
}

// Verify checks an event's headers against its raw body and returns its identifier. The only error is ErrSignature.
func Verify(h http.Header, secrets []Secret, now time.Time, body []byte) (string, error) {
	id, stamp := h.Get(HeaderID), h.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" || len(id) > maxID || now.Sub(time.Unix(seconds, 0)).Abs() > Tolerance {
		return "", ErrSignature
	}
	given := signatures(h.Get(HeaderSignature))
	if len(given) == 0 {
		return "", ErrSignature
	}
	for _, s := range secrets { // the sums are what costs: one for each secret, however many signatures are sent
		if len(s.key) == 0 {
			continue
		}
		sum := s.sum(id, stamp, body)
		if slices.ContainsFunc(given, func(one []byte) bool { return hmac.Equal(one, sum) }) {
			return id, nil
		}
	}
	return "", ErrSignature
}

// signatures are those of version 1 in a header, which may have others.
func signatures(header string) [][]byte {
	var all [][]byte
	for given := range strings.FieldsSeq(header) {
		encoded, ok := strings.CutPrefix(given, "v1,")
		if sum, err := base64.StdEncoding.DecodeString(encoded); ok && err == nil && len(sum) == sha256.Size {
			all = append(all, sum)
		}
	}
	return all
}

func (s Secret) sum(id, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}
