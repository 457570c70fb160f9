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
	mark := map[Format]byte{Comma: ',', Semicolon: ';', Tab: '\t'}[t.facts.Format]
	r := csv.NewReader(&narrow{from: &skipBOM{file: file}, mark: mark})
	r.Comma = rune(mark)
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
	for _, other := range []struct {
		format Format
		mark   string
	}{{Semicolon, ";"}, {Tab, "\t"}} { // in this order: the same line always means the same
		if n := strings.Count(line, other.mark); n > most {
			best, most = other.format, n
		}
	}
	return best
}

// narrow fails where a row has more columns than a sheet can have: the reader of CSV would keep each in memory. It counts as that
// reader does, up to a quotation mark that is out of place, which ends both.
type narrow struct {
	from   io.Reader
	mark   byte // between two columns
	quoted bool
	marks  int // in the row so far
}

func (n *narrow) Read(p []byte) (int, error) {
	got, err := n.from.Read(p)
	for _, b := range p[:got] {
		switch {
		case b == '"':
			n.quoted = !n.quoted
		case n.quoted:
		case b == '\n':
			n.marks = 0
		case b == n.mark:
			if n.marks++; n.marks >= maxColumns {
				return 0, fault("too_many_columns", "A row has more than %d columns: remove the separators that stand for nothing.", maxColumns)
			}
		}
	}
	return got, err
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
