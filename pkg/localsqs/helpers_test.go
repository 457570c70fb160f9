package localsqs_test

import "net/http"

// doer makes a client of a transport.
type doer struct{ http.RoundTripper }

func (d doer) Do(r *http.Request) (*http.Response, error) { return d.RoundTrip(r) }
