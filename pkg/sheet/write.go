package sheet

import (
	"encoding/csv"
	"fmt"
	"io"

	"github.com/xuri/excelize/v2"
)

// Write makes a sheet of refused rows in a format, with the reason of each in the last column. rows calls add for every row. No cell
// is a formula when the sheet is opened: in CSV what could be taken for one gets an apostrophe in front, which Read takes away.
func Write(to io.Writer, format Format, rows func(add func(cells []string, reason string) error) error) error {
	if format == XLSX {
		return writeXLSX(to, rows)
	}
	w := csv.NewWriter(to)
	w.UseCRLF = true // as spreadsheet programs write it (RFC 4180)
	switch format {
	case Semicolon:
		w.Comma = ';'
	case Tab:
		w.Comma = '\t'
	default: // a comma
	}
	if err := w.Write(append(append([]string{}, names[:columns]...), reason.String())); err != nil {
		return err
	}
	err := rows(func(cells []string, why string) error {
		line := make([]string, 0, len(cells)+1)
		for _, cell := range cells {
			line = append(line, safe(cell))
		}
		return w.Write(append(line, safe(why)))
	})
	if err == nil { // else what is buffered would pass for a sheet
		w.Flush()
		err = w.Error()
	}
	if err != nil {
		return fmt.Errorf("write the sheet: %w", err)
	}
	return nil
}

func writeXLSX(to io.Writer, rows func(add func(cells []string, reason string) error) error) error {
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	w, err := book.NewStreamWriter(book.GetSheetName(0))
	if err != nil {
		return fmt.Errorf("write the sheet: %w", err)
	}
	number := 0
	add := func(cells []string, why string) error {
		number++
		line := make([]any, 0, len(cells)+1)
		for _, cell := range cells {
			line = append(line, cell) // a cell of text is never a formula
		}
		return w.SetRow(fmt.Sprintf("A%d", number), append(line, why))
	}
	err = add(names[:columns], reason.String())
	if err == nil {
		err = rows(add)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = book.Write(to)
	}
	if err != nil {
		return fmt.Errorf("write the sheet: %w", err)
	}
	return nil
}
