package sheet_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"github.com/stagefleet/stagefleet/pkg/sheet"
)

// peak runs work and returns by how many bytes the heap grew meanwhile, garbage that was not collected yet included.
func peak(t *testing.T, work func()) int64 {
	t.Helper()
	debug.FreeOSMemory()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		high := uint64(0)
		for {
			select {
			case <-done:
				most <- high
				return
			case <-tick.C:
				runtime.ReadMemStats(&now)
				high = max(high, now.HeapInuse)
			}
		}
	}()
	work()
	close(done)
	return int64(<-most) - int64(before.HeapInuse)
}

// rows makes a workbook of so many rows, each with a text of its own, as spreadsheet programs write them (shared) or as a stream.
func rowsOf(t *testing.T, rows int, shared bool) string {
	t.Helper()
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	var err error
	if shared {
		for i := range rows {
			at := fmt.Sprint("A", i+1)
			err = errors.Join(err, book.SetSheetRow("Sheet1", at, &[]any{name(i, "target"), name(i, "source"), "The same title of all", 1}))
		}
		err = errors.Join(err, book.SetSheetRow("Sheet1", "A1", &[]any{"target", "source", "title", "version"}))
	} else {
		w, fault := book.NewStreamWriter("Sheet1")
		err = errors.Join(fault, w.SetRow("A1", []any{"target", "source", "title", "version"}))
		for i := 1; i < rows; i++ {
			err = errors.Join(err, w.SetRow(fmt.Sprint("A", i+1), []any{name(i, "target"), name(i, "source"), "The same title of all", 1}))
		}
		err = errors.Join(err, w.Flush())
	}
	var file bytes.Buffer
	if err = errors.Join(err, book.Write(&file)); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func name(i int, of string) string { return fmt.Sprintf("%s-of-a-recording-%d.mp4", of, i) }

// One text of 200 KB takes little room in a file, and a row that refers to it in every column is short.
func TestALongSharedTextInEveryColumnTakesNoMemory(t *testing.T) {
	for name, text := range map[string]string{
		"one text": `<t>` + strings.Repeat("a", 200_000) + `</t>`, "in runs": strings.Repeat(`<r><t>`+strings.Repeat("a", 2000)+`</t></r>`, 100),
	} {
		list := bomb{part: "xl/sharedStrings.xml", end: `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si>` + text + `</si></sst>`}
		row := bomb{"xl/worksheets/sheet1.xml", `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row>`,
			`<c t="s"><v>0</v></c>`, 2000 * raceShare, `</row></sheetData></worksheet>`, ""}
		grown := peak(t, func() {
			var fault *sheet.Error
			if _, _, err := read(row.in(t, list.made(t))); !errors.As(err, &fault) || fault.Code != "large_workbook" {
				t.Errorf("%s: %v", name, err)
			}
		})
		if grown > 64<<20 {
			t.Errorf("%s: the heap grew by %d MiB", name, grown>>20)
		}
	}
}

func TestAWorkbookMayHaveLargePictures(t *testing.T) {
	picture := bomb{part: "xl/media/image1.png", begin: "\x89PNG\r\n\x1a\n", repeated: "<pixel/>\x00", times: 2_000_000}
	rows, _, err := read(picture.made(t))
	if err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestASheetOfBlankCellsKeepsNobodyBusy(t *testing.T) {
	const head = `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>source</t></is></c></row>`
	for name, b := range map[string]bomb{
		"in the last column": {"xl/worksheets/sheet1.xml", head, `<row><c r="XFD1" t="str"><v> </v></c></row>`, 400_000, `</sheetData></worksheet>`, ""},
		"in rows beyond all": {"xl/worksheets/sheet1.xml", head, `<row/>`, 1_100_000, `</sheetData></worksheet>`, ""},
	} {
		text := b.made(t)
		began := time.Now()
		_, err := sheet.ReadScaled(raceShare, strings.NewReader(text), func(sheet.Row) error { return nil })
		var fault *sheet.Error
		if !errors.As(err, &fault) || fault.Code != "large_sheet" {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: a file of %d KiB is refused in %.1f s", name, len(text)>>10, time.Since(began).Seconds())
	}
}

func TestALineOfSeparatorsTakesNoMemory(t *testing.T) {
	for name, line := range map[string]string{"bare": ",", "over lines": strings.Repeat(",", 10_000) + "\"\n\""} {
		text := "source\n" + strings.Repeat(line, sheet.MaxBytes/2/len(line)) + "\n"
		grown := peak(t, func() {
			var fault *sheet.Error
			if _, _, err := read(text); !errors.As(err, &fault) || fault.Code != "too_many_columns" {
				t.Errorf("%s: %v", name, err)
			}
		})
		if grown > 16<<20 {
			t.Errorf("%s: the heap grew by %d MiB", name, grown>>20)
		}
	}
}

func TestAWorkbookOfAHundredThousandRowsIsReadInBoundedMemory(t *testing.T) {
	const rows, bound = 100_000, 96 << 20
	for kind, shared := range map[string]bool{"shared texts": true, "inline texts": false} {
		t.Run(kind, func(t *testing.T) {
			const rows = rows / raceShare
			text := rowsOf(t, rows+1, shared)
			read := 0
			began := time.Now()
			grown := peak(t, func() {
				if _, err := sheet.Read(strings.NewReader(text), func(sheet.Row) error { read++; return nil }); err != nil {
					t.Error(err)
				}
			})
			t.Logf("%d rows, a file of %.1f MiB: the heap grew by %.0f MiB in %.1f s", read, float64(len(text))/(1<<20), float64(grown)/(1<<20), time.Since(began).Seconds())
			if read != rows || grown > bound {
				t.Errorf("%d rows read, %d MiB, want %d rows and at most %d MiB", read, grown>>20, rows, bound>>20)
			}
		})
	}
}

// bomb is a part of a workbook: what is repeated so often between a beginning and an end.
type bomb struct {
	part, begin, repeated string
	times                 int
	end                   string
	instead               string // of which own part, to which the workbook refers; empty: of the one with the same name
}

// made makes the workbook.
func (b bomb) made(t *testing.T) string {
	t.Helper()
	return b.in(t, workbook(t, [][]any{{"source"}, {"a.mp4"}}))
}

// in puts the part into a workbook.
func (b bomb) in(t *testing.T, book string) string {
	t.Helper()
	source, err := zip.NewReader(strings.NewReader(book), int64(len(book)))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	out := zip.NewWriter(&file)
	for _, entry := range source.File {
		switch {
		case b.instead != "" && strings.HasSuffix(entry.Name, ".rels"):
			err = errors.Join(err, b.redirect(out, entry))
		case entry.Name != b.part:
			err = errors.Join(err, out.Copy(entry))
		}
	}
	w, fault := out.Create(b.part)
	err = errors.Join(err, fault)
	_, fault = io.WriteString(w, b.begin)
	err = errors.Join(err, fault)
	chunk := strings.Repeat(b.repeated, 100)
	for range b.times / 100 / raceShare {
		_, fault = io.WriteString(w, chunk)
		err = errors.Join(err, fault)
	}
	_, fault = io.WriteString(w, b.end)
	if err = errors.Join(err, fault, out.Close()); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// redirect copies references, and makes those to the own part lead to the bomb.
func (b bomb) redirect(out *zip.Writer, entry *zip.File) error {
	content, err := entry.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	text, err := io.ReadAll(content)
	w, fault := out.Create(entry.Name)
	_, wrote := io.WriteString(w, strings.ReplaceAll(string(text), strings.TrimPrefix(b.instead, "xl/"), strings.TrimPrefix(b.part, "xl/")))
	return errors.Join(err, fault, wrote)
}

func TestAWorkbookThatUnpacksToTooMuchIsRefusedBeforeItTakesMemory(t *testing.T) {
	const bound = 64 << 20
	const one, texts = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
	const sheetHead = `<?xml version="1.0" encoding="UTF-8"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>source</t></is></c></row>`
	const sheetEnd = `</row></sheetData></worksheet>`
	const textHead = `<?xml version="1.0" encoding="UTF-8"?><sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`
	const bookHead = `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheets>`
	for name, b := range map[string]bomb{
		"rows beyond all bytes":         {one, sheetHead, `<row><c t="inlineStr"><is><t>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</t></is></c></row>`, 2_000_000, `</sheetData></worksheet>`, ""},
		"one text of many bytes":        {one, sheetHead + `<row><c t="inlineStr"><is><t>`, "a", 100_000_000, `</t></is></c>` + sheetEnd, ""},
		"one text in CDATA":             {one, sheetHead + `<row><c t="inlineStr"><is><t><![CDATA[`, "<aaaaaaaaa", 10_000_000, `]]></t></is></c>` + sheetEnd, ""},
		"one tag of many bytes":         {one, sheetHead + `<row x="`, "a", 100_000_000, `">` + sheetEnd, ""},
		"one row of many cells":         {one, sheetHead + `<row>`, `<c><v>1</v></c>`, 8_000_000, sheetEnd, ""},
		"one cell of many runs":         {one, sheetHead + `<row><c t="inlineStr"><is>`, `<r/>`, 30_000_000, `</is></c>` + sheetEnd, ""},
		"runs between rows in a cell":   {one, sheetHead + `<row><c t="inlineStr"><is>`, `<r/><row/>`, 10_000_000, `</is></c>` + sheetEnd, ""},
		"many shared texts":             {texts, textHead, `<si/>`, 25_000_000, `</sst>`, ""},
		"one shared text of many runs":  {texts, textHead + `<si>`, `<r/>`, 30_000_000, `</si></sst>`, ""},
		"a large part that is parsed":   {"xl/styles.xml", `<styleSheet><cellXfs>`, `<xf/>`, 20_000_000, `</cellXfs></styleSheet>`, ""},
		"another encoding":              {one, strings.Replace(sheetHead, "UTF-8", "latin1", 1) + `<row><c t="inlineStr"><is>`, `<r/>`, 30_000_000, `</is></c>` + sheetEnd, ""},
		"one row of long texts":         {one, sheetHead + `<row>`, `<c t="inlineStr"><is><t>` + strings.Repeat("a", 10_000) + `</t></is></c>`, 10_000, sheetEnd, ""},
		"one row, not where it belongs": {one, strings.Replace(sheetHead, "<sheetData>", "", 1) + `<row>`, `<c t="str"><v>1</v></c>`, 4_000_000, `</row></worksheet>`, ""},
		"one row in many pieces":        {one, sheetHead, `<row r="1"><c t="str"><v>1</v></c></row>`, 3_000_000, `</sheetData></worksheet>`, ""},
		"a shared text without a list":  {texts, `<si xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`, `<r/>`, 900_000, `</si>`, ""},
		"a workbook of another name":    {"xl/plan.bin", bookHead, `<sheet/>`, 8_000_000, `</sheets></workbook>`, "xl/workbook.xml"},
		"a workbook after some text":    {"xl/plan.bin", "words" + bookHead, `<sheet/>`, 8_000_000, `</sheets></workbook>`, "xl/workbook.xml"},
		"a sheet of another name":       {"xl/rows.png", sheetHead + `<row><c t="inlineStr"><is><t>`, "a", 100_000_000, `</t></is></c>` + sheetEnd, "xl/worksheets/sheet1.xml"},
	} {
		t.Run(name, func(t *testing.T) {
			text := b.made(t)
			if len(text) > sheet.MaxBytes/8 {
				t.Fatalf("the bomb has %d bytes", len(text))
			}
			var fault *sheet.Error
			grown := peak(t, func() {
				_, err := sheet.ReadScaled(raceShare, strings.NewReader(text), func(sheet.Row) error { return nil })
				if !errors.As(err, &fault) || fault.Code != "large_workbook" && fault.Code != "broken_workbook" {
					t.Errorf("%v", err)
				}
			})
			if grown > bound {
				t.Errorf("the heap grew by %d MiB, at most %d", grown>>20, bound>>20)
			}
			t.Logf("%d KiB: %v; the heap grew by %d MiB", len(text)>>10, fault, grown>>20)
		})
	}
}
