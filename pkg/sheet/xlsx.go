package sheet

import (
	"errors"
	"io"

	"github.com/xuri/excelize/v2"
)

// readXLSX reads the first sheet of a workbook. A worksheet beyond 16 MB is unpacked into a temporary file.
func (t *table) readXLSX(file io.Reader) (err error) {
	t.facts.Format = XLSX
	defer func() {
		if p := recover(); p != nil { // the library trusts a workbook's inner references
			err = fault("broken_workbook", "The workbook is damaged: open it in a spreadsheet program and save it again as .xlsx.")
		}
	}()
	book, err := excelize.OpenReader(file, excelize.Options{UnzipSizeLimit: maxUnpack, UnzipXMLSizeLimit: excelize.StreamChunkSize})
	if err != nil {
		return fault("broken_workbook", "The file is no readable .xlsx workbook, or has more than %d MiB unpacked: save it again as .xlsx, or as CSV in UTF-8.", maxUnpack>>20)
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

func (t *table) readSheet(book *excelize.File) error {
	broken := fault("broken_workbook", "The first sheet of the workbook is damaged: open it in a spreadsheet program and save it again as .xlsx.")
	rows, err := book.Rows(t.sheet)
	if err != nil {
		return broken
	}
	defer func() { _ = rows.Close() }()
	for number := 1; rows.Next(); number++ {
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
