package sqldb

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// dialect is the little in which the two databases' SQL differs.
type dialect int

const (
	sqlite dialect = iota
	postgres
)

const recordsPattern = `\brecords\(\$(\d+):([^)]*)\) (\w+)`

var (
	recordsText = regexp.MustCompile(recordsPattern)
	idsText     = regexp.MustCompile(`\bIN ids\(\$(\d+)\)`)
	placeholder = regexp.MustCompile(`\$(\d+)`)
	argsText    = regexp.MustCompile(recordsPattern + `|` + idsText.String() + `|` + placeholder.String())
	nowText     = regexp.MustCompile(`\bnow_us\(\)`)
	lockText    = regexp.MustCompile(`\bFOR (NO KEY UPDATE|UPDATE|SHARE)( OF \w+(, \w+)*)?( SKIP LOCKED)?`)
)

// translation is a statement in the text of one dialect, with where its arguments come from.
type translation struct {
	text   string
	params []param
}

// param is an argument of the common text, or one column of it when that is rows.
type param struct {
	arg    int    // from 0
	column string // empty: the argument itself
	kind   string // of the column: text or bigint
}

// translations caches the text of each dialect; the set of statements is that of the program.
var translations [2]sync.Map

func (d dialect) translate(text string) *translation {
	if t, ok := translations[d].Load(text); ok {
		return t.(*translation)
	}
	t := &translation{text: toSQLite(text)}
	if d == postgres {
		t = toPostgres(text)
	}
	translations[d].Store(text, t)
	return t
}

// toPostgres gives every column of rows a parameter of its own, an array: those cost the server half of what JSON does, and the
// planner goes by the index for arrays of identifiers.
func toPostgres(text string) *translation {
	t := &translation{}
	t.text = argsText.ReplaceAllStringFunc(text, func(found string) string {
		m := argsText.FindStringSubmatch(found)
		switch {
		case m[1] != "":
			return t.unnest(m[1], m[2], m[3])
		case m[4] != "":
			return "= ANY (" + t.number(m[4], "id", "text") + "::text[])"
		default:
			return t.number(m[5], "", "")
		}
	})
	t.text = nowText.ReplaceAllString(t.text, `(extract(epoch from clock_timestamp())*1000000)::bigint`)
	return t
}

func (t *translation) unnest(arg, columns, alias string) string {
	var arrays, names []string
	for c := range strings.SplitSeq(columns, ",") {
		name, kind, ok := strings.Cut(strings.TrimSpace(c), " ")
		if !ok || kind != "text" && kind != "bigint" {
			panic(fmt.Sprintf("sqldb: column %q of records must be of type text or bigint", c))
		}
		arrays = append(arrays, t.number(arg, name, kind)+"::"+kind+"[]")
		names = append(names, name)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS " + alias + "(" + strings.Join(names, ", ") + ")"
}

// number returns the placeholder of a parameter, the same one for the same parameter.
func (t *translation) number(arg, column, kind string) string {
	n, _ := strconv.Atoi(arg) // the pattern holds digits only
	p := param{n - 1, column, kind}
	for i, known := range t.params {
		if known == p {
			return "$" + strconv.Itoa(i+1)
		}
	}
	t.params = append(t.params, p)
	return "$" + strconv.Itoa(len(t.params))
}

// toSQLite drops the types of columns, because a JSON value has its own there, and row locks.
func toSQLite(text string) string {
	text = recordsText.ReplaceAllStringFunc(text, func(records string) string {
		m := recordsText.FindStringSubmatch(records)
		var columns []string
		for column := range strings.SplitSeq(m[2], ",") {
			name := strings.Fields(column)[0]
			columns = append(columns, "value->>'"+name+"' AS "+name)
		}
		return "(SELECT " + strings.Join(columns, ", ") + " FROM json_each($" + m[1] + ")) " + m[3]
	})
	text = idsText.ReplaceAllString(text, `IN (SELECT value->>'id' FROM json_each($$$1))`)
	text = lockText.ReplaceAllString(text, ``)
	return placeholder.ReplaceAllString(text, `?$1`)
}

// bind makes the dialect's arguments from those of the common text.
func (t *translation) bind(args []any) []any {
	if t.params == nil { // SQLite takes rows as JSON, and everything else as it is
		bound := slices.Clone(args)
		for i, a := range args {
			if rows, ok := a.(Records); ok {
				bound[i] = JSON(rows.slice)
			}
		}
		return bound
	}
	bound := make([]any, len(t.params))
	for i, p := range t.params {
		bound[i] = args[p.arg]
		if p.column == "" {
			continue
		}
		rows, ok := args[p.arg].(Records)
		if !ok {
			panic(fmt.Sprintf("sqldb: argument %d of a statement is read as rows and is %T, not Records", p.arg+1, args[p.arg]))
		}
		bound[i] = rows.column(p.column, p.kind)
	}
	return bound
}
