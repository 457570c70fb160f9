package sheet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Read calls each for every row with values, in order, and stops with each's error. The error is an *Error when the file is no
// sheet; what each was given before then counts for nothing.
func Read(file io.ReadSeeker, each func(Row) error) (Facts, error) {
	return readWithin(usual, file, each)
}

func readWithin(b bounds, file io.ReadSeeker, each func(Row) error) (Facts, error) {
	head := make([]byte, 4096)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Facts{}, fmt.Errorf("read the sheet: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Facts{}, fmt.Errorf("read the sheet: %w", err)
	}
	head = head[:n]
	t := &table{bounds: b, each: each, seen: map[uint64]int{}}
	switch {
	case len(bytes.TrimSpace(bytes.TrimPrefix(head, bom))) == 0 && n < 4096:
		return Facts{}, fault("empty_sheet", "The sheet is empty.")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		err = t.readXLSX(file)
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		err = fault("old_workbook", "This is a workbook of an old kind, or one with a password: save it as .xlsx without a password, or as CSV in UTF-8.")
	default:
		err = t.readCSV(file, head)
	}
	if err == nil {
		err = t.complete()
	}
	return t.facts, err
}

var errLarge = fault("large_sheet", "The sheet has more cells than a sheet of recordings can have: copy the rows and columns that say something into a new one.")

// table gives rows their meaning, whatever they were encoded as.
type table struct {
	bounds bounds
	facts  Facts
	sheet  string
	each   func(Row) error
	cells  int            // that were looked at
	places []Column       // of every column in the file; nil until the names have been read
	seen   map[uint64]int // row by the hash of target and version
}

// row takes the cells of one row.
func (t *table) row(number int, cells []string) error {
	if t.cells += len(cells); t.cells > t.bounds.cells {
		return errLarge
	}
	if !slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) != "" }) {
		return nil
	}
	if t.places == nil {
		return t.names(cells)
	}
	if t.facts.Rows++; t.facts.Rows > MaxRows {
		return fault("too_many_rows", "The sheet has more than %d rows: divide it.", MaxRows)
	}
	r := Row{Sheet: t.sheet, Number: number}
	for i, cell := range cells {
		cell = strings.TrimSpace(cell)
		if i < len(t.places) && t.places[i] < columns {
			r.Cells[t.places[i]] = bare(cell)
		} else if cell != "" && (i >= len(t.places) || t.places[i] == columns) {
			r.refuse(columns, KindOf(cell), "no_column", "The row has a value in column %s, which has no name in the first row.", letters(i))
		}
	}
	t.judge(&r)
	return t.each(r)
}

// names reads the first row.
func (t *table) names(cells []string) error {
	t.places = make([]Column, len(cells))
	known := map[Column]bool{}
	for i, cell := range cells {
		name := strings.ToLower(strings.TrimSpace(cell))
		c := Column(slices.Index(names[:], name))
		switch {
		case name == "":
			c = columns
		case c < 0 && len(known) == 0 && i == 0:
			return fault("missing_header", "The first row must name the columns: target, source, title, version; column A has another text there.")
		case c < 0:
			return fault("unknown_column", "Column %s has a name that is none of target, source, title, version, reason: rename it or remove the column.", letters(i))
		case known[c]:
			return fault("column_twice", "Two columns are called %s: remove one of them.", c)
		}
		known[c] = true
		t.places[i] = c
	}
	if !known[Source] {
		return fault("missing_column", "The first row names no column source, which says where each recording is.")
	}
	return nil
}

func (t *table) complete() error {
	switch {
	case t.places == nil:
		return fault("empty_sheet", "The sheet is empty.")
	case t.facts.Rows == 0:
		return fault("no_rows", "The sheet has names of columns but no rows below them.")
	}
	return nil
}

// letters is a column's name as spreadsheet programs show it.
func letters(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

func (r *Row) refuse(c Column, k Kind, code, sentence string, args ...any) {
	if r.Refusal == nil {
		r.Refusal = &Refusal{Column: c, Kind: k, Code: code, Sentence: fmt.Sprintf(sentence, args...)}
	}
}

// judge decides whether a row can be used.
func (t *table) judge(r *Row) {
	switch {
	case r.Cells[Source] == "":
		r.refuse(Source, Empty, "empty", "The source is empty; in a merged range only the first cell has a value, and a formula needs its stored value.")
	case TargetOf(*r) == "":
		r.refuse(Source, KindOf(r.Cells[Source]), "no_name", "The source ends with a slash, so that it names no file.")
	case r.Cells[Target] == "" && len(TargetOf(*r)) > MaxTarget:
		r.refuse(Source, KindOf(r.Cells[Source]), "too_long", "The source names the target and has more than %d bytes after its last slash: give the row a target.", MaxTarget)
	}
	for i, most := range [...]int{Target: MaxTarget, Source: MaxSource, Title: MaxTitle} { // the first column that is wrong is named
		switch c, text := Column(i), r.Cells[i]; {
		case len(text) > most:
			r.refuse(c, KindOf(text), "too_long", "The %s has more than %d bytes.", c, most)
		case strings.ContainsFunc(text, unicode.IsControl):
			r.refuse(c, KindOf(text), "control_character", "The %s has a line break or another control character.", c)
		case KindOf(text) == Fault:
			r.refuse(c, Fault, "error_value", "The %s is an error of the spreadsheet program.", c)
		case KindOf(text) == Formula:
			r.refuse(c, Formula, "formula", "The %s is a formula: paste its value instead.", c)
		}
	}
	t.judgeVersion(r)
	t.judgeTwice(r)
}

func (t *table) judgeVersion(r *Row) {
	text := r.Cells[Version]
	if text == "" {
		return
	}
	switch r.Version = VersionOf(text); {
	case r.Version > 0:
	case KindOf(text) == Date:
		r.refuse(Version, Date, "version", "The version is a date; it must be a whole number from 1: format the column as text or number.")
	default:
		r.refuse(Version, KindOf(text), "version", "The version must be a whole number from 1, or empty for the next one.")
	}
}

// VersionOf reads a version, as 3 or 3.00; 0 is none.
func VersionOf(text string) int64 {
	digits, zeros, _ := strings.Cut(text, ".")
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v < 1 || digits[0] == '+' || strings.Trim(zeros, "0") != "" {
		return 0
	}
	return v
}

// judgeTwice refuses a row that asks for the same as an earlier one. Rows without a target are named after their source.
func (t *table) judgeTwice(r *Row) {
	if r.Refusal != nil {
		return
	}
	key := hash(TargetOf(*r), r.Version)
	if first, twice := t.seen[key]; twice {
		r.refuse(Target, KindOf(r.Cells[Target]), "duplicate", "The row asks for the same target and version as row %d.", first)
		return
	}
	t.seen[key] = r.Number
}

// TargetOf is what a row's recording is called: its target, or the base name of its source.
func TargetOf(r Row) string {
	if r.Cells[Target] != "" {
		return r.Cells[Target]
	}
	return NameOf(r)
}

// ObjectPrefix begins a source that is an object: object:KEY is the object inbox/TENANT/KEY, so that nobody names another tenant's.
const ObjectPrefix = "object:"

// NameOf is the base name of a row's source, whichever system's path it is.
func NameOf(r Row) string {
	source := strings.ReplaceAll(strings.TrimPrefix(r.Cells[Source], ObjectPrefix), `\`, "/")
	return source[strings.LastIndex(source, "/")+1:]
}
