package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"
)

// Bounds of one delivery.
const (
	sendTimeout = 15 * time.Second // the whole call
	maxURL      = 2048
	maxHeader   = 64 << 10 // bytes of an answer
)

// schedule is the wait after the first failure, the second, and so on; after the last the event is given up. It is the one
// that the specification proposes: nine more tries in three days.
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// Wait is how long after its n-th failure, from 1, an event is sent again. False: it is given up.
func Wait(failures int) (time.Duration, bool) {
	if failures < 1 || failures > len(schedule) {
		return 0, false
	}
	return schedule[failures-1], true
}

// ErrGone means that the receiver wants no more events (HTTP 410).
var ErrGone = errors.New("webhook: the receiver wants no more events")

// Event is what is sent to a receiver.
type Event struct {
	ID, URL string
	Body    []byte
	Secrets []Secret
}

// Client delivers events. It is safe for concurrent use.
type Client struct {
	http *http.Client
	now  func() time.Time
}

// NewClient makes a client. Only with private set does it call addresses that the public network does not have; that is for
// a fleet whose submitters are on the same machine.
func NewClient(private bool) *Client {
	dialer := &net.Dialer{Timeout: sendTimeout}
	if !private {
		dialer.Control = publicOnly
	}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: sendTimeout, MaxIdleConns: 32, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	return &Client{http: &http.Client{
		Transport: transport, Timeout: sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, now: time.Now}
}

// Send delivers an event once. Nil: the receiver acknowledged it with a 2xx. The error never quotes the receiver; with one,
// reached says whether the whole event was written to it, so that it may have acted on it.
func (c *Client) Send(ctx context.Context, e Event) (reached bool, err error) {
	var wrote atomic.Bool // by the transport's goroutine, at a time of its own
	trace := &httptrace.ClientTrace{WroteRequest: func(w httptrace.WroteRequestInfo) { wrote.Store(w.Err == nil) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, e.URL, bytes.NewReader(e.Body))
	if err != nil {
		return false, errors.New("webhook: the address is not valid")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "stagefleet")
	Sign(request.Header, e.Secrets, e.ID, c.now(), e.Body)
	response, err := c.http.Do(request)
	if err != nil {
		return wrote.Load(), fmt.Errorf("webhook: %w", bare(err))
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be used again
	switch {
	case response.StatusCode/100 == 2:
		return true, nil
	case response.StatusCode == http.StatusGone:
		return true, ErrGone
	}
	return true, fmt.Errorf("webhook: the receiver answered %d", response.StatusCode)
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// bare says what went wrong in words of its own. The error itself has the address, which may hold what a submitter wants to keep to
// itself, and what a receiver said: its certificate's names, its first line if that is not HTTP.
func bare(err error) error {
	var timeout net.Error
	var name *net.DNSError
	var number syscall.Errno
	var trust *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, errPrivate):
		return errPrivate
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the receiver did not answer in time")
	case errors.As(err, &name):
		return errors.New("the receiver's name was not found")
	case errors.As(err, &trust):
		return errors.New("the receiver's certificate is not valid")
	case errors.As(err, &number):
		return fmt.Errorf("the connection failed: %w", number)
	}
	return errors.New("the receiver broke off, or does not speak HTTP")
}

// errPrivate means that a name of the public network leads to an address that it does not have.
var errPrivate = errors.New("the address is not a public one")

// publicOnly looks at the address that is really called, after the name has been resolved.
func publicOnly(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !public(to.Addr()) {
		return errPrivate
	}
	return nil
}

// special are the blocks that IANA's special-purpose registries (RFC 6890) do not route globally and netip does not name. Of IPv6
// only 2000::/3 is given out; in it are blocks that lead to an IPv4 address inside them (Teredo, 6to4), and to nobody.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}

var given = netip.MustParsePrefix("2000::/3")

func public(a netip.Addr) bool {
	a = a.Unmap()
	return (a.Is4() || given.Contains(a)) && a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// CheckURL refuses, in one sentence for the submitter, an address to which no event could be sent. Private allows http too.
func CheckURL(raw string, private bool) error {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > maxURL || !utf8.ValidString(raw):
		return fmt.Errorf("the webhook's address must be UTF-8 of at most %d bytes", maxURL)
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		return errors.New("the webhook's address must be like https://example.org/path, without user or fragment")
	case u.Scheme != "https" && (!private || u.Scheme != "http"):
		return errors.New("the webhook's address must begin with https://")
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return errors.New("the webhook's address has a port that is none")
	}
	if to, err := netip.ParseAddr(u.Hostname()); err == nil && !private && !public(to) {
		return errors.New("the webhook's address must be a public one")
	}
	return nil
}
