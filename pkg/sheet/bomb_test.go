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

func TestAWorkbookOfAHundredThousandRowsIsReadInBoundedMemory(t *testing.T) {
	const rows, bound = 100_000, 96 << 20
	for kind, shared := range map[string]bool{"shared texts": true, "inline texts": false} {
		t.Run(kind, func(t *testing.T) {
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

// bomb makes a workbook with a part in place of an own one: what is repeated so often between a beginning and an end.
func bomb(t *testing.T, part, begin, repeated string, times int, end string) string {
	t.Helper()
	source, err := zip.NewReader(strings.NewReader(workbook(t, [][]any{{"source"}, {"a.mp4"}})), int64(len(workbook(t, [][]any{{"source"}, {"a.mp4"}}))))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	out := zip.NewWriter(&file)
	for _, entry := range source.File {
		if entry.Name != part {
			err = errors.Join(err, out.Copy(entry))
		}
	}
	w, fault := out.Create(part)
	err = errors.Join(err, fault)
	_, fault = io.WriteString(w, begin)
	err = errors.Join(err, fault)
	chunk := strings.Repeat(repeated, 1000)
	for range times / 1000 {
		_, fault = io.WriteString(w, chunk)
		err = errors.Join(err, fault)
	}
	_, fault = io.WriteString(w, end)
	if err = errors.Join(err, fault, out.Close()); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func TestAWorkbookThatUnpacksToTooMuchIsRefusedBeforeItTakesMemory(t *testing.T) {
	const bound = 64 << 20
	const one, texts = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
	const sheetHead = `<?xml version="1.0" encoding="UTF-8"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>source</t></is></c></row>`
	const sheetEnd = `</row></sheetData></worksheet>`
	const textHead = `<?xml version="1.0" encoding="UTF-8"?><sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`
	for name, b := range map[string]struct {
		part, begin, repeated string
		times                 int
		end                   string
	}{
		"rows beyond all bytes":        {one, sheetHead, `<row><c t="inlineStr"><is><t>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</t></is></c></row>`, 2_000_000, `</sheetData></worksheet>`},
		"one text of many bytes":       {one, sheetHead + `<row><c t="inlineStr"><is><t>`, "a", 100_000_000, `</t></is></c>` + sheetEnd},
		"one text in CDATA":            {one, sheetHead + `<row><c t="inlineStr"><is><t><![CDATA[`, "<aaaaaaaaa", 10_000_000, `]]></t></is></c>` + sheetEnd},
		"one tag of many bytes":        {one, sheetHead + `<row x="`, "a", 100_000_000, `">` + sheetEnd},
		"one row of many cells":        {one, sheetHead + `<row>`, `<c><v>1</v></c>`, 8_000_000, sheetEnd},
		"one cell of many runs":        {one, sheetHead + `<row><c t="inlineStr"><is>`, `<r/>`, 30_000_000, `</is></c>` + sheetEnd},
		"runs between rows in a cell":  {one, sheetHead + `<row><c t="inlineStr"><is>`, `<r/><row/>`, 10_000_000, `</is></c>` + sheetEnd},
		"many shared texts":            {texts, textHead, `<si/>`, 25_000_000, `</sst>`},
		"one shared text of many runs": {texts, textHead + `<si>`, `<r/>`, 30_000_000, `</si></sst>`},
		"a large part that is parsed":  {"xl/styles.xml", `<styleSheet><cellXfs>`, `<xf/>`, 20_000_000, `</cellXfs></styleSheet>`},
		"another encoding":             {one, strings.Replace(sheetHead, "UTF-8", "latin1", 1) + `<row><c t="inlineStr"><is>`, `<r/>`, 30_000_000, `</is></c>` + sheetEnd},
	} {
		t.Run(name, func(t *testing.T) {
			text := bomb(t, b.part, b.begin, b.repeated, b.times, b.end)
			if len(text) > sheet.MaxBytes/8 {
				t.Fatalf("the bomb has %d bytes", len(text))
			}
			var fault *sheet.Error
			grown := peak(t, func() {
				_, _, err := read(text)
				if !errors.As(err, &fault) {
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
