// Package sheet reads the sheets by which people hand in many recordings at once, CSV or XLSX, row by row, and writes back the
// rows that were refused, with the reason of each.
//
// Promised: memory does not grow with the number of rows; every row is either usable or refused with its column, the kind of its
// value and a reason, never with the value itself; a file that is no such sheet gives one *Error with a sentence that says what to
// do; what Write makes, Read takes. It knows nothing of jobs. Package intake is the caller.
//
// What a sheet is: its first row names the columns, in any order and case. Source is required; target, title and version may be
// left out; reason is ignored, so that refused rows can be mended and imported again; any other name is refused, because it may
// be a misspelt one. Rows without any value are passed over. Of a workbook only the first sheet is read. A formula counts as the
// value that the spreadsheet program has stored with it. In a merged range only the first cell has a value.
package sheet

import "fmt"

// Bounds of a sheet.
const (
	MaxBytes  = 32 << 20 // of the file
	MaxRows   = 200_000  // with values
	MaxTarget = 512      // bytes of UTF-8
	MaxTitle  = 1 << 10  // bytes of UTF-8
	MaxSource = 2 << 10  // bytes of UTF-8
)

// maxColumns is as many as spreadsheet programs have.
const maxColumns = 16_384

// Column is what a cell says.
type Column int

// The columns in the order in which Write puts them.
const (
	Target Column = iota
	Source
	Title
	Version
	columns // one without a name
	reason  // only passed over
)

var names = [...]string{Target: "target", Source: "source", Title: "title", Version: "version", columns: "", reason: "reason"}

// String is the column's name in the first row.
func (c Column) String() string { return names[c] }

// Format is how a sheet was encoded.
type Format string

// The formats: CSV by its separator, and the workbook.
const (
	Comma     Format = "csv"
	Semicolon Format = "csv_semicolon"
	Tab       Format = "csv_tab"
	XLSX      Format = "xlsx"
)

// Row is one row with values. Cells hold the text as it was written; Version is 0 when the cell is empty.
type Row struct {
	Sheet   string // name of the sheet in a workbook; empty for CSV
	Number  int    // from 1, the names' row included, as spreadsheet programs count
	Cells   [columns]string
	Version int64
	Refusal *Refusal // nil: the row can be used
}

// Refusal says what is wrong with a row, without its values.
type Refusal struct {
	Column   Column // without a name: the value stands where the first row has none
	Kind     Kind
	Code     string // snake_case
	Sentence string
}

// Kind is what a refused value looks like.
type Kind string

// The kinds of values.
const (
	Empty   Kind = "empty"
	Text    Kind = "text"
	Number  Kind = "number"
	Date    Kind = "date"
	Boolean Kind = "boolean"
	Fault   Kind = "error" // such as #REF!
	Formula Kind = "formula"
)

// Error says why a file as a whole is no sheet.
type Error struct {
	Code     string // snake_case
	Sentence string // for the person who sent it
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Sentence }

func fault(code, sentence string, args ...any) *Error {
	return &Error{Code: code, Sentence: fmt.Sprintf(sentence, args...)}
}

// Facts is what Read found out beside the rows.
type Facts struct {
	Format Format
	Rows   int
	Notice string // one sentence about what was passed over; mostly empty
}
