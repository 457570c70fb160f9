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
	indexText   = regexp.MustCompile(`\bINDEXED BY \w+ `)
	lockText    = regexp.MustCompile(`\bFOR (NO KEY UPDATE|UPDATE|SHARE)( OF \w+(, \w+)*)?( SKIP LOCKED)?`)
)

// translation is a statement in the text of one dialect, with where its arguments come from.
type translation struct {
	text   string
	params []param
	rows   bool // run it once for each row
}

// param is an argument of the common text, or one column of it when that is rows.
type param struct {
	arg    int    // from 0
	column string // empty: the argument itself
	kind   kind
}

type kind int

const (
	plain kind = iota
	textArray
	bigintArray
	jsonArray
	cell // of one row
)

var arrayTypes = map[kind]string{textArray: "text[]", bigintArray: "bigint[]"}

// translations caches the text of each dialect; the set of statements is that of the program.
var translations [2]sync.Map

func (d dialect) translate(text string) *translation {
	if t, ok := translations[d].Load(text); ok {
		return t.(*translation)
	}
	t := toSQLite(text)
	if d == postgres {
		t = toPostgres(text)
	}
	translations[d].Store(text, t)
	return t
}

// toPostgres gives every column of rows a parameter of its own, an array: those cost the server half of what JSON does, and the
// planner goes by the index for arrays of identifiers. They are unnested side by side in a select list, which costs a third of
// one unnest of them all in FROM: that stores every value in a table of its column first.
func toPostgres(text string) *translation {
	t := &translation{}
	t.rewrite(text, func(arg string, columns []string, kinds []kind, alias string) string {
		arrays := make([]string, len(columns))
		for i, c := range columns {
			arrays[i] = "unnest($" + t.number(arg, c, kinds[i]) + "::" + arrayTypes[kinds[i]] + ") AS " + c
		}
		return "(SELECT " + strings.Join(arrays, ", ") + ") AS " + alias
	}, func(arg string) string {
		return "= ANY ($" + t.number(arg, "id", textArray) + "::text[])"
	}, "$")
	t.text = indexText.ReplaceAllString(t.text, ``)
	t.text = nowText.ReplaceAllString(t.text, `(extract(epoch from clock_timestamp())*1000000)::bigint`)
	return t
}

// toSQLite lets a statement run for one row after the other, because there a statement costs less than taking JSON apart. There
// are no row locks.
func toSQLite(text string) *translation {
	t := &translation{rows: recordsText.MatchString(text)}
	t.rewrite(text, func(arg string, columns []string, _ []kind, alias string) string {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = "?" + t.number(arg, c, cell) + " AS " + c
		}
		return "(SELECT " + strings.Join(cells, ", ") + ") " + alias
	}, func(arg string) string {
		if t.rows {
			return "= ?" + t.number(arg, "id", cell)
		}
		return "IN (SELECT value FROM json_each(?" + t.number(arg, "id", jsonArray) + "))"
	}, "?")
	t.text = lockText.ReplaceAllString(t.text, ``)
	return t
}

// rewrite replaces what stands for arguments, from left to right.
func (t *translation) rewrite(text string, records func(arg string, columns []string, kinds []kind, alias string) string, ids func(arg string) string, sign string) {
	t.text = argsText.ReplaceAllStringFunc(text, func(found string) string {
		m := argsText.FindStringSubmatch(found)
		switch {
		case m[1] != "":
			columns, kinds := columnsOf(m[2])
			return records(m[1], columns, kinds, m[3])
		case m[4] != "":
			return ids(m[4])
		default:
			return sign + t.number(m[5], "", plain)
		}
	})
}

// columnsOf reads the list "id text, n bigint". Another type is a bug, which the first run finds.
func columnsOf(list string) (columns []string, kinds []kind) {
	for c := range strings.SplitSeq(list, ",") {
		name, typ, _ := strings.Cut(strings.TrimSpace(c), " ")
		k, ok := map[string]kind{"text": textArray, "bigint": bigintArray}[typ]
		if !ok {
			panic(fmt.Sprintf("sqldb: column %q of records must be of type text or bigint", c))
		}
		columns, kinds = append(columns, name), append(kinds, k)
	}
	return columns, kinds
}

// number returns the number of a parameter, the same one for the same parameter.
func (t *translation) number(arg, column string, k kind) string {
	n, _ := strconv.Atoi(arg) // the pattern holds digits only
	p := param{n - 1, column, k}
	i := slices.Index(t.params, p)
	if i < 0 {
		i = len(t.params)
		t.params = append(t.params, p)
	}
	return strconv.Itoa(i + 1)
}

// bind makes the dialect's arguments from those of the common text, for each time that the statement must run.
func (t *translation) bind(args []any) [][]any {
	runs := 1
	for _, p := range t.params {
		if p.kind == cell {
			runs = rowsOf(args, p).len()
		}
	}
	bound := make([][]any, runs)
	for run := range bound {
		bound[run] = make([]any, len(t.params))
		for i, p := range t.params {
			bound[run][i] = p.value(args, run)
		}
	}
	return bound
}

func (p param) value(args []any, run int) any {
	switch p.kind {
	case textArray, bigintArray:
		return rowsOf(args, p).column(p.column, p.kind)
	case jsonArray:
		return Text(rowsOf(args, p).texts(p.column))
	case cell:
		return rowsOf(args, p).cell(run, p.column)
	default:
		return args[p.arg]
	}
}

func rowsOf(args []any, p param) Records {
	rows, ok := args[p.arg].(Records)
	if !ok {
		panic(fmt.Sprintf("sqldb: argument %d of a statement is read as rows and is %T, not Records", p.arg+1, args[p.arg]))
	}
	return rows
}
