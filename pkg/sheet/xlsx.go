package sheet

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/xuri/excelize/v2"
)

// readXLSX reads the first sheet of a workbook.
func (t *table) readXLSX(file io.ReadSeeker) (err error) {
	t.facts.Format = XLSX
	defer func() {
		if p := recover(); p != nil { // the library trusts a workbook's inner references
			err = fault("broken_workbook", "The workbook is damaged: open it in a spreadsheet program and save it again as .xlsx.")
		}
	}()
	broken := fault("broken_workbook", "The file is no readable .xlsx workbook: save it again as .xlsx, or as CSV in UTF-8.")
	switch err := bounded(file, t.bounds); {
	case errors.Is(err, errBounds):
		return fault("large_workbook", "The workbook has more than %d MiB unpacked, or texts or rows beyond what a spreadsheet program writes: save its first sheet as CSV in UTF-8.", t.bounds.unpack>>20)
	case err != nil:
		return broken
	}
	book, err := excelize.OpenReader(file, excelize.Options{UnzipSizeLimit: int64(t.bounds.unpack), UnzipXMLSizeLimit: spillAt})
	if err != nil {
		return broken
	}
	defer func() { _ = book.Close() }()
	sheets := book.GetSheetList()
	if len(sheets) == 0 {
		return fault("empty_sheet", "The workbook has no sheet.")
	}
	if len(sheets) > 1 {
		t.facts.Notice = "Only the first sheet of the workbook was read."
	}
	t.sheet = sheets[0]
	return t.readSheet(book)
}

// bounded looks a workbook through and goes back to its beginning.
func bounded(file io.ReadSeeker, b bounds) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("read the sheet: %w", err)
	}
	at, ok := file.(io.ReaderAt)
	if !ok {
		content, err := io.ReadAll(file)
		if _, back := file.Seek(0, io.SeekStart); err != nil || back != nil {
			return fmt.Errorf("read the sheet: %w", errors.Join(err, back))
		}
		at = bytes.NewReader(content)
	}
	return guard(at, size, b)
}

func (t *table) readSheet(book *excelize.File) error {
	broken := fault("broken_workbook", "The first sheet of the workbook is damaged: open it in a spreadsheet program and save it again as .xlsx.")
	rows, err := book.Rows(t.sheet)
	if err != nil {
		return broken
	}
	defer func() { _ = rows.Close() }()
	for number := 1; rows.Next(); number++ {
		if number > t.bounds.number {
			return errLarge
		}
		// Values as they are shown: the number behind a date would pass for a version.
		cells, err := rows.Columns()
		if err != nil {
			return broken
		}
		if err := t.row(number, cells); err != nil {
			return err
		}
	}
	if rows.Error() != nil && !errors.Is(rows.Error(), io.EOF) {
		return broken
	}
	return nil
}
