package job

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is one thing that a key permits.
type Scope string

// The scopes. None contains another: a key that submits cannot read.
const (
	ScopeSubmit  Scope = "submit"  // hand in work of the key's tenant and cancel it
	ScopeView    Scope = "view"    // read the work, results and account of the key's tenant
	ScopeOperate Scope = "operate" // see and steer the whole fleet, of all tenants; keys and accounts too
)

// Scopes is what one key permits, in the order of AllScopes.
type Scopes []Scope

// AllScopes returns every scope.
func AllScopes() Scopes { return Scopes{ScopeSubmit, ScopeView, ScopeOperate} }

// Has reports whether s is among them.
func (all Scopes) Has(s Scope) bool { return slices.Contains(all, s) }

// String lists them as ParseScopes reads them.
func (all Scopes) String() string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return strings.Join(words, ",")
}

// ParseScopes reads scopes that are separated by commas. There must be at least one, and none twice counts twice.
func ParseScopes(text string) (Scopes, error) {
	given := map[Scope]bool{}
	for word := range strings.SplitSeq(text, ",") {
		s := Scope(strings.TrimSpace(word))
		if !AllScopes().Has(s) {
			return nil, fmt.Errorf("scope %q must be one of %s", s, AllScopes())
		}
		given[s] = true
	}
	return slices.DeleteFunc(AllScopes(), func(s Scope) bool { return !given[s] }), nil
}
