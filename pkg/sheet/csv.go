package sheet

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

var bom = []byte("\xef\xbb\xbf")

func (t *table) readCSV(file io.Reader, head []byte) error {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.IndexByte(head, 0) >= 0 {
		return fault("encoding", "The file is not text in UTF-8; it may be UTF-16: save it as CSV in UTF-8 (in Excel: CSV UTF-8).")
	}
	head = bytes.TrimPrefix(head, bom)
	if len(head) > 0 {
		line, _, _ := bytes.Cut(head, []byte("\n"))
		t.facts.Format = separator(string(line))
	}
	r := csv.NewReader(&skipBOM{file: file})
	r.Comma = map[Format]rune{Comma: ',', Semicolon: ';', Tab: '\t'}[t.facts.Format]
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	for {
		cells, err := r.Read()
		var broken *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &broken):
			return fault("broken_csv", "Line %d has a quotation mark that is not closed or stands inside a value: put values with quotation marks in quotation marks, and double those inside.", broken.Line)
		case err != nil:
			return err
		}
		line, _ := r.FieldPos(0)
		for _, cell := range cells {
			if !utf8.ValidString(cell) {
				return fault("encoding", "Line %d is not text in UTF-8; the file may be Latin-1 or Windows-1252: save it as CSV in UTF-8 (in Excel: CSV UTF-8).", line)
			}
		}
		if err := t.row(line, cells); err != nil {
			return err
		}
	}
}

// separator is what stands between the names of the first line most often.
func separator(line string) Format {
	best, most := Comma, strings.Count(line, ",")
	for format, mark := range map[Format]string{Semicolon: ";", Tab: "\t"} {
		if n := strings.Count(line, mark); n > most {
			best, most = format, n
		}
	}
	return best
}

// skipBOM passes over a byte order mark at the beginning.
type skipBOM struct {
	file io.Reader
	done bool
	rest []byte
}

func (s *skipBOM) Read(p []byte) (int, error) {
	if !s.done {
		s.done = true
		first := make([]byte, len(bom))
		n, err := io.ReadFull(s.file, first)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return 0, err
		}
		s.rest = bytes.TrimPrefix(first[:n], bom)
	}
	if len(s.rest) > 0 {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		return n, nil
	}
	return s.file.Read(p)
}
