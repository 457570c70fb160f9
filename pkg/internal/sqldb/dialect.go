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
		t = rowsMacro.ReplaceAllString(text, `jsonb_array_elements($1::text::jsonb) $2(value)`)
		t = nowMacro.ReplaceAllString(t, `(extract(epoch from clock_timestamp())*1000000)::bigint`)
	} else {
		t = rowsMacro.ReplaceAllString(text, `json_each($1) $2`)
		t = lockClause.ReplaceAllString(t, ``)
		t = placeholder.ReplaceAllString(t, `?$1`)
	}
	translations[d].Store(text, t)
	return t
}
