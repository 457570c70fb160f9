package localsqs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signingSkew is how far a request's time may be from ours.
// Source: IAM user guide, "Troubleshoot signed requests for AWS APIs".
const signingSkew = 15 * time.Minute

const signingAlgorithm = "AWS4-HMAC-SHA256"

// authorize checks the Signature Version 4 of a request against the configured keys; without keys everyone is let in.
// Source: IAM user guide, "Create a signed AWS API request".
func (s *Server) authorize(r *http.Request, body []byte) error {
	if len(s.opts.Credentials) == 0 {
		return nil
	}
	auth, ok := parseAuthorization(r.Header.Get("Authorization"))
	if !ok {
		return forbidden("MissingAuthenticationToken", "The request carries no Signature Version 4.")
	}
	secret, ok := s.opts.Credentials[auth.scope[0]]
	if !ok {
		return forbidden("InvalidClientTokenId", "The security token included in the request is invalid.")
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if skew := time.Since(at); err != nil || skew > signingSkew || skew < -signingSkew {
		return forbidden("SignatureDoesNotMatch", "The request's time is not within 15 minutes of the server's.")
	}
	if !hmac.Equal([]byte(auth.sign(r, body, secret)), []byte(auth.signature)) {
		return forbidden("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	}
	return nil
}

func forbidden(code, message string) *apiError {
	return &apiError{code: code, legacy: code, status: http.StatusForbidden, message: message}
}

// authorization is a parsed Authorization header.
type authorization struct {
	scope     []string // access key, date, region, service, "aws4_request"
	headers   []string // the signed ones, sorted, lower case
	signature string
}

func parseAuthorization(header string) (authorization, bool) {
	fields, ok := strings.CutPrefix(header, signingAlgorithm+" ")
	var a authorization
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "Credential":
			a.scope = strings.Split(value, "/")
		case "SignedHeaders":
			a.headers = strings.Split(value, ";")
		case "Signature":
			a.signature = value
		}
	}
	return a, ok && len(a.scope) == 5 && slices.Contains(a.headers, "host") && a.signature != ""
}

func (a authorization) sign(r *http.Request, body []byte, secret string) string {
	hash := sha256.Sum256(body)
	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + canonicalPath(r.URL) + "\n" + r.URL.Query().Encode() + "\n")
	for _, name := range a.headers {
		canonical.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	canonical.WriteString("\n" + strings.Join(a.headers, ";") + "\n" + hex.EncodeToString(hash[:]))
	request := sha256.Sum256([]byte(canonical.String()))
	text := signingAlgorithm + "\n" + r.Header.Get("X-Amz-Date") + "\n" + strings.Join(a.scope[1:], "/") + "\n" + hex.EncodeToString(request[:])
	key := []byte("AWS4" + secret)
	for _, part := range a.scope[1:] {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

func canonicalPath(u *url.URL) string {
	if path := u.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

// headerValue returns a header as it was signed; net/http keeps two of them elsewhere.
func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	values := slices.Clone(r.Header.Values(name))
	for i, v := range values {
		values[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(values, ",")
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}
