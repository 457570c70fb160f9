package api

import (
	"context"
	"net/http"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// caller is who asks. What it may read is its tenant's, whatever a request says; scope operate alone reaches further.
type caller struct {
	tenant string
	scopes job.Scopes
	key    string // identifier of the key; empty for the local operator
}

// localOperator is everyone on the loopback interface while there are no keys.
var localOperator = caller{tenant: Tenant, scopes: job.AllScopes()}

// who names the caller in the audit.
func (c caller) who() string {
	if c.key == "" {
		return "local operator"
	}
	return "key " + c.key
}

type callerKey struct{}

// callerOf returns who made a request. Handlers are never called without one.
func callerOf(ctx context.Context) caller { return ctx.Value(callerKey{}).(caller) }

// withCaller is the request of a caller.
func withCaller(r *http.Request, c caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// allow refuses a caller whose key lacks what an operation needs.
func (c caller) allow(need job.Scope) error {
	if need == "" || c.scopes.Has(need) {
		return nil
	}
	return problem(http.StatusForbidden, "scope", "The key's scopes are %s; this needs %s.", c.scopes, need)
}
