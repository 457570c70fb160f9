package sqldb

import (
	"regexp"
	"strings"
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
	recordsText = regexp.MustCompile(`\brecords\((\$\d+):([^)]*)\) (\w+)`)
	idsText     = regexp.MustCompile(`\bIN ids\((\$\d+)\)`)
	nowText     = regexp.MustCompile(`\bnow_us\(\)`)
	lockText    = regexp.MustCompile(`\bFOR (NO KEY UPDATE|UPDATE|SHARE)( OF \w+(, \w+)*)?( SKIP LOCKED)?`)
)

// translations caches the text of each dialect; the set of statements is that of the program.
var translations [2]sync.Map

func (d dialect) translate(text string) string {
	if t, ok := translations[d].Load(text); ok {
		return t.(string)
	}
	t := toSQLite(text)
	if d == postgres {
		t = toPostgres(text)
	}
	translations[d].Store(text, t)
	return t
}

// toPostgres makes arrays of identifiers arrays, because those the planner goes by the index for.
func toPostgres(text string) string {
	text = recordsText.ReplaceAllString(text, `json_to_recordset($1::text::json) AS $3($2)`)
	text = idsText.ReplaceAllString(text, `= ANY (ARRAY(SELECT e->>'id' FROM json_array_elements($1::text::json) e))`)
	return nowText.ReplaceAllString(text, `(extract(epoch from clock_timestamp())*1000000)::bigint`)
}

// toSQLite drops the types of columns, because a JSON value has its own there, and row locks.
func toSQLite(text string) string {
	text = recordsText.ReplaceAllStringFunc(text, func(records string) string {
		m := recordsText.FindStringSubmatch(records)
		var columns []string
		for _, column := range strings.Split(m[2], ",") {
			name := strings.Fields(column)[0]
			columns = append(columns, "value->>'"+name+"' AS "+name)
		}
		return "(SELECT " + strings.Join(columns, ", ") + " FROM json_each(" + m[1] + ")) " + m[3]
	})
	text = idsText.ReplaceAllString(text, `IN (SELECT value->>'id' FROM json_each($1))`)
	text = lockText.ReplaceAllString(text, ``)
	return placeholder.ReplaceAllString(text, `?$1`)
}
