package sheet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/xuri/excelize/v2"

	"github.com/stagefleet/stagefleet/pkg/sheet"
)

func read(text string) ([]sheet.Row, sheet.Facts, error) {
	var rows []sheet.Row
	facts, err := sheet.Read(strings.NewReader(text), func(r sheet.Row) error {
		rows = append(rows, r)
		return nil
	})
	return rows, facts, err
}

// workbook makes an .xlsx file; a cell's value is what excelize takes.
func workbook(t testing.TB, rows [][]any, more ...func(*excelize.File)) string {
	t.Helper()
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	for i, row := range rows {
		for j, value := range row {
			at, _ := excelize.CoordinatesToCellName(j+1, i+1)
			if err := book.SetCellValue("Sheet1", at, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, change := range more {
		change(book)
	}
	var file bytes.Buffer
	if err := book.Write(&file); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func TestColumnsAreFoundByNameInAnyOrderAndCase(t *testing.T) {
	want := sheet.Row{Number: 2, Cells: [4]string{"Talk", "a.mp4", "A title", "3"}, Version: 3}
	for name, text := range map[string]string{
		"in order":           "target,source,title,version\nTalk,a.mp4,A title,3\n",
		"in another":         "Version,TITLE, Source ,target\n3,A title,a.mp4,Talk\n",
		"with semicolons":    "target;source;title;version\nTalk;a.mp4;A title;3\n",
		"with tabs":          "target\tsource\ttitle\tversion\nTalk\ta.mp4\tA title\t3\n",
		"with CRLF":          "target,source,title,version\r\nTalk,a.mp4,A title,3\r\n",
		"with quotes":        "\"target\",\"source\",title,version\n\"Talk\",a.mp4,\"A title\",3\n",
		"with a BOM":         "\xef\xbb\xbftarget,source,title,version\nTalk,a.mp4,A title,3",
		"with a reason":      "target,source,title,version,reason\nTalk,a.mp4,A title,3,It was bad.\n",
		"with version 3.0":   "target,source,title,version\nTalk,a.mp4,A title,3.00\n",
		"with blank columns": "target,source,title,version,,\nTalk,a.mp4,A title,3,,\n",
	} {
		rows, _, err := read(text)
		if err != nil || len(rows) != 1 {
			t.Errorf("%s: %+v, %v", name, rows, err)
			continue
		}
		rows[0].Cells[sheet.Version] = "3"
		if !reflect.DeepEqual(rows[0], want) {
			t.Errorf("%s: %+v", name, rows[0])
		}
	}
}

func TestAQuotedValueMayHoldSeparatorsAndQuotes(t *testing.T) {
	rows, _, err := read("source,title\n\"a,b.mp4\",\"She said \"\"no\"\"\"\n")
	if err != nil || rows[0].Cells[sheet.Source] != "a,b.mp4" || rows[0].Cells[sheet.Title] != `She said "no"` {
		t.Fatalf("%+v, %v", rows, err)
	}
}

func TestAFileThatIsNoSheetSaysWhatToDo(t *testing.T) {
	utf16le := func(s string) string {
		out := "\xff\xfe"
		for _, u := range utf16.Encode([]rune(s)) {
			out += string([]byte{byte(u), byte(u >> 8)})
		}
		return out
	}
	for name, c := range map[string]struct{ text, code string }{
		"nothing":              {"", "empty_sheet"},
		"blank lines":          {" \n\n", "empty_sheet"},
		"only separators":      {",,,\n,,,\n", "empty_sheet"},
		"names only":           {"target,source\n", "no_rows"},
		"names, blank rows":    {"target,source\n,\n,\n", "no_rows"},
		"no names":             {"talk.mp4,Talk\nother.mp4,Other\n", "missing_header"},
		"no source":            {"target,title\na,b\n", "missing_column"},
		"a misspelt name":      {"source,versjon\na.mp4,2\n", "unknown_column"},
		"a name twice":         {"source,Source\na.mp4,b.mp4\n", "column_twice"},
		"UTF-16":               {utf16le("target,source\na,b\n"), "encoding"},
		"UTF-16 without a BOM": {utf16le("target,source\na,b\n")[2:], "encoding"},
		"Latin-1":              {"target,source\nGespr\xe4ch,a.mp4\n", "encoding"},
		"an open quotation":    {"source\n\"a.mp4\nb.mp4\n", "broken_csv"},
		"a quotation inside":   {"source\na\"b.mp4\n", "broken_csv"},
		"an old workbook":      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old_workbook"},
		"a zip, no workbook":   {"PK\x03\x04 and nothing else", "broken_workbook"},
		"an empty workbook":    {workbook(t, nil), "empty_sheet"},
		"a workbook of names":  {workbook(t, [][]any{{"target", "source"}}), "no_rows"},
		"too many columns":     {"source\na.mp4" + strings.Repeat(",", 20_000) + "\n", "too_many_columns"},
		"columns over lines":   {"source\na.mp4" + strings.Repeat(strings.Repeat(",", 10_000)+"\"\n\"", 2) + "\n", "too_many_columns"},
		"too many rows":        {"source\n" + strings.Repeat("a.mp4\n", sheet.MaxRows+1), "too_many_rows"},
	} {
		_, _, err := read(c.text)
		var e *sheet.Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		} else if !strings.HasSuffix(e.Sentence, ".") || len(e.Sentence) > 250 {
			t.Errorf("%s: %q is no sentence", name, e.Sentence)
		}
	}
}

func TestARowThatCannotBeUsedIsRefusedWithColumnAndKind(t *testing.T) {
	for name, c := range map[string]struct {
		row    string
		column sheet.Column
		kind   sheet.Kind
		code   string
	}{
		"half filled":             {"Talk,,,", sheet.Source, sheet.Empty, "empty"},
		"a date for a version":    {"T,a.mp4,,2024-01-05", sheet.Version, sheet.Date, "version"},
		"an American date":        {"T,a.mp4,,1/5/24", sheet.Version, sheet.Date, "version"},
		"version zero":            {"T,a.mp4,,0", sheet.Version, sheet.Number, "version"},
		"version 1.5":             {"T,a.mp4,,1.5", sheet.Version, sheet.Number, "version"},
		"version in words":        {"T,a.mp4,,two", sheet.Version, sheet.Text, "version"},
		"a truth for a version":   {"T,a.mp4,,TRUE", sheet.Version, sheet.Boolean, "version"},
		"a huge version":          {"T,a.mp4,,99999999999999999999", sheet.Version, sheet.Number, "version"},
		"a formula":               {"T,=A1,,", sheet.Source, sheet.Formula, "formula"},
		"an error":                {"#REF!,a.mp4,,", sheet.Target, sheet.Fault, "error_value"},
		"a long target":           {strings.Repeat("t", sheet.MaxTarget+1) + ",a.mp4,,", sheet.Target, sheet.Text, "too_long"},
		"a long name of a file":   {",talks/" + strings.Repeat("t", sheet.MaxTarget+1) + ",,", sheet.Source, sheet.Text, "too_long"},
		"a long title":            {"T,a.mp4," + strings.Repeat("t", sheet.MaxTitle+1) + ",", sheet.Title, sheet.Text, "too_long"},
		"a line break":            {"\"a\nb\",a.mp4,,", sheet.Target, sheet.Text, "control_character"},
		"the same as another row": {"Twice,a.mp4,,2", sheet.Target, sheet.Text, "duplicate"},
		"the same by its source":  {",x/Twice,,2", sheet.Target, sheet.Empty, "duplicate"},
	} {
		rows, _, err := read("target,source,title,version\nTwice,b.mp4,,2\n" + c.row + "\n")
		if err != nil || len(rows) != 2 {
			t.Errorf("%s: %+v, %v", name, rows, err)
			continue
		}
		no := rows[1].Refusal
		if rows[0].Refusal != nil || no == nil || no.Column != c.column || no.Kind != c.kind || no.Code != c.code {
			t.Errorf("%s: %+v", name, no)
			continue
		}
		for _, cell := range strings.Split(c.row, ",") {
			if len(cell) > 2 && strings.Contains(no.Sentence, cell) {
				t.Errorf("%s: the sentence repeats the value: %q", name, no.Sentence)
			}
		}
	}
}

func TestAValueOutsideTheNamedColumnsIsNotLostInSilence(t *testing.T) {
	rows, _, err := read("source,title\na.mp4,Talk,2024-01-05\n")
	if err != nil || rows[0].Refusal == nil || !strings.Contains(rows[0].Refusal.Sentence, "column C") {
		t.Fatalf("%+v, %v", rows, err)
	}
	if no := rows[0].Refusal; no.Column.String() != "" || no.Kind != sheet.Date {
		t.Errorf("the value's column is called %q, its kind %s", no.Column, no.Kind)
	}
}

func TestTheSameFileAlwaysMeansTheSame(t *testing.T) {
	long := strings.Repeat("x", sheet.MaxSource+1)
	for range 50 {
		rows, _, err := read("target,source,title\n" + long + "," + long + "," + long + "\n")
		if err != nil || rows[0].Refusal.Column != sheet.Target {
			t.Fatalf("of three bad columns %s is named, not the first", rows[0].Refusal.Column)
		}
		if _, facts, err := read("source;title\t\na.mp4;b\n"); err != nil || facts.Format != sheet.Semicolon {
			t.Fatalf("a semicolon and a tab: %s, %v", facts.Format, err)
		}
	}
}

func TestAWorkbooksPeculiaritiesHaveDefinedEnds(t *testing.T) {
	head := []any{"target", "source", "title", "version"}
	text := workbook(t, [][]any{
		head, {"A", "a.mp4", "", 2}, {"B", "b.mp4", "", 45296}, {}, {"Merged", "c.mp4"}, {}, {"F"}, {7, "g.mp4"},
	}, func(book *excelize.File) {
		style, _ := book.NewStyle(&excelize.Style{NumFmt: 14})
		_ = book.SetCellStyle("Sheet1", "D3", "D3", style)  // a date
		_ = book.MergeCell("Sheet1", "B5", "B6")            // one source for two rows
		_ = book.SetCellValue("Sheet1", "A6", "Below")      // whose second half has none
		_ = book.SetCellFormula("Sheet1", "B7", `"f"&".m"`) // never calculated
		_ = book.SetCellFormula("Sheet1", "A8", `3+4`)      // calculated: the stored value counts
		_, _ = book.NewSheet("Notes")
		_ = book.SetCellValue("Notes", "A1", "anything")
	})
	rows, facts, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		code := "ok"
		if r.Refusal != nil {
			code = fmt.Sprint(r.Refusal.Code, " ", r.Refusal.Column, " ", r.Refusal.Kind)
		}
		got = append(got, fmt.Sprintf("%s %d %s: %s", r.Sheet, r.Number, r.Cells[sheet.Target], code))
	}
	want := []string{
		"Sheet1 2 A: ok", "Sheet1 3 B: version version date", "Sheet1 5 Merged: ok", "Sheet1 6 Below: empty source empty",
		"Sheet1 7 F: empty source empty", "Sheet1 8 7: ok",
	}
	if !reflect.DeepEqual(got, want) || facts.Format != sheet.XLSX || facts.Notice == "" {
		t.Errorf("got\n%s\nwant\n%s\n%+v", strings.Join(got, "\n"), strings.Join(want, "\n"), facts)
	}
}

func TestRefusedRowsAreReadBackAsTheyWere(t *testing.T) {
	cells := [][]string{{"=1+1", "+a.mp4", "-t", "@x"}, {"'quoted", "a,b;c\td", `"`, ""}, {"Größe", "日本.mp4", "", "5"}}
	for _, format := range []sheet.Format{sheet.Comma, sheet.Semicolon, sheet.Tab, sheet.XLSX} {
		var file bytes.Buffer
		err := sheet.Write(&file, format, func(add func([]string, string) error) error {
			for _, row := range cells {
				if err := add(row, "=because"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if format != sheet.XLSX {
			for _, bad := range []string{"=", "+", "-", "@"} {
				for line := range strings.Lines(file.String()) {
					if strings.HasPrefix(strings.TrimPrefix(line, `"`), bad) {
						t.Errorf("%s: %q may be run by a spreadsheet program", format, line)
					}
				}
			}
		}
		rows, facts, err := read(file.String())
		if err != nil || facts.Format != format || len(rows) != len(cells) {
			t.Fatalf("%s: %+v, %+v, %v", format, rows, facts, err)
		}
		for i, r := range rows {
			if !reflect.DeepEqual(r.Cells[:], cells[i]) {
				t.Errorf("%s: %q, want %q", format, r.Cells, cells[i])
			}
		}
	}
}

// endless is a CSV file of many rows that is never in memory.
type endless struct {
	rows, at int
	rest     string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		if e.at > e.rows {
			return 0, io.EOF
		}
		e.rest = "target,source\n"
		if e.at > 0 {
			e.rest = fmt.Sprintf("target %d,%s.mp4\n", e.at, strings.Repeat("x", 200))
		}
		e.at++
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *endless) Seek(int64, int) (int64, error) {
	e.at, e.rest = 0, ""
	return 0, nil
}

func TestAHundredThousandRowsNeedNoMoreMemoryThanTheirHashes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	rows, peak := 0, uint64(0)
	_, err := sheet.Read(&endless{rows: 100_000}, func(sheet.Row) error {
		if rows++; rows%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			peak = max(peak, after.HeapAlloc)
		}
		return nil
	})
	if err != nil || rows != 100_000 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	grown := int64(peak) - int64(before.HeapAlloc)
	if grown > 8<<20 { // the file has 21 MB
		t.Errorf("the heap grew by %d bytes", grown)
	}
	t.Logf("the heap grew by %d KiB", grown>>10)
}

func TestAnObjectsNameIsItsKeysLastPart(t *testing.T) {
	for source, want := range map[string]string{"object:talk.mp4": "talk.mp4", "object:a/talk.mp4": "talk.mp4", `C:\rec\talk.mp4`: "talk.mp4", "object:": "", "a/": ""} {
		var r sheet.Row
		r.Cells[sheet.Source] = source
		if got := sheet.TargetOf(r); got != want {
			t.Errorf("%s is called %q, want %q", source, got, want)
		}
	}
}
