package api

import (
	"net"
	"net/http"
	"net/url"
)

// Guard lets only programs of this machine reach a server without keys: it refuses requests under another name than the
// loopback interface's, since a page in the user's browser can make any name lead here (DNS rebinding), and what a page of
// another origin sends. Refusals are problem details.
func Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := guarded(r); err != nil {
			writeProblem(w, r, problemOf(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errNotLoopback = problem(http.StatusForbidden, "not_loopback", "Without keys, the fleet answers only under a loopback address.")

var origins = http.NewCrossOriginProtection()

func guarded(r *http.Request) error {
	if !IsLoopback((&url.URL{Host: r.Host}).Hostname()) {
		return errNotLoopback
	}
	if origins.Check(r) != nil {
		return problem(http.StatusForbidden, "cross_origin", "The fleet takes nothing from a page of another origin.")
	}
	return nil
}

// IsLoopback tells whether a host, without port, is this machine's loopback interface by its address or as localhost.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
