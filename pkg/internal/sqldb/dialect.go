package sqldb

import (
	"regexp"
	"sync"
)

// dialect is the little in which the two databases' SQL differs.
type dialect int

const (
	sqlite dialect = iota
	postgres
)

var (
	placeholder = regexp.MustCompile(`\$(\d+)`)
	rowsMacro   = regexp.MustCompile(`\brows\((\$\d+)\) (\w+)`)
	idsMacro    = regexp.MustCompile(`\bIN ids\((\$\d+)\)`)
	matchMacro  = regexp.MustCompile(`\bmatch\((\w+), (\w+), (\$\d+)\)`)
	nowMacro    = regexp.MustCompile(`\bnow_us\(\)`)
	lockClause  = regexp.MustCompile(`\bFOR (NO KEY UPDATE|UPDATE|SHARE)( OF \w+(, \w+)*)?( SKIP LOCKED)?`)
)

// translations caches the text of each dialect; the set of statements is that of the program.
var translations [2]sync.Map

func (d dialect) translate(text string) string {
	if t, ok := translations[d].Load(text); ok {
		return t.(string)
	}
	var t string
	if d == postgres {
		// An array lets the planner go by the index; for a join with a set of unknown size it would read whole tables,
		// and if it might use the index for both it would try every pair.
		t = matchMacro.ReplaceAllString(text, `$1.id || '' = $2.value->>'id' AND $1.id IN ids($3)`)
		t = idsMacro.ReplaceAllString(t, `= ANY (ARRAY(SELECT e->>'id' FROM jsonb_array_elements($1::text::jsonb) e))`)
		t = rowsMacro.ReplaceAllString(t, `jsonb_array_elements($1::text::jsonb) $2(value)`)
		t = nowMacro.ReplaceAllString(t, `(extract(epoch from clock_timestamp())*1000000)::bigint`)
	} else {
		t = matchMacro.ReplaceAllString(text, `$1.id = $2.value->>'id'`)
		t = idsMacro.ReplaceAllString(t, `IN (SELECT e.value->>'id' FROM json_each($1) e)`)
		t = rowsMacro.ReplaceAllString(t, `json_each($1) $2`)
		t = lockClause.ReplaceAllString(t, ``)
		t = placeholder.ReplaceAllString(t, `?$1`)
	}
	translations[d].Store(text, t)
	return t
}
