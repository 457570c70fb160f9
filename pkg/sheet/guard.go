package sheet

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// A workbook of a few kilobytes may unpack to whatever it likes, and what a library makes of a part may be fifty times as large as
// the part. So a workbook is looked through as a stream before it is opened, and refused beyond bounds that no sheet of
// recordings comes near.
const (
	maxUnpack  = 128 << 20 // bytes that all parts have together
	maxSmall   = 8 << 20   // bytes of the parts that are read as a whole: styles, relations and such
	maxToken   = 256 << 10 // bytes of one text or tag; a cell holds 32,767 characters
	maxTokens  = 200_000   // within one row or shared text; a row has 16,384 cells
	maxStrings = 1_000_000 // shared texts
	spillAt    = 1 << 20   // bytes of a sheet or of the shared texts, beyond which they are unpacked into a temporary file
)

var errBounds = errors.New("beyond the bounds of a workbook")

// guard returns errBounds for a workbook that would take too much memory, and another error for what is no workbook.
func guard(file io.ReaderAt, size int64) error {
	book, err := zip.NewReader(file, size)
	if err != nil {
		return err
	}
	var all, small uint64
	for _, part := range book.File {
		n := part.UncompressedSize64
		if n > maxUnpack {
			return errBounds
		}
		all += n
		name := strings.ToLower(strings.ReplaceAll(part.Name, `\`, "/"))
		depth := -1
		switch {
		case strings.HasPrefix(name, "xl/worksheets/sheet"):
			depth = 2 // of a row, in worksheet and sheetData
		case name == "xl/sharedstrings.xml":
			depth = 1 // of a text, in sst
		case strings.HasSuffix(name, ".xml"), strings.HasSuffix(name, ".rels"):
			small += n
		}
		if all > maxUnpack || small > maxSmall {
			return errBounds
		}
		if depth > 0 {
			if err := guardPart(part, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// guardPart looks through a part whose elements at a depth are read one at a time.
func guardPart(part *zip.File, unit int) error {
	content, err := part.Open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	tokens := xml.NewDecoder(&shortTokens{from: content})
	depth, inside, units := 0, 0, 0
	for {
		token, err := tokens.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token.(type) {
		case xml.StartElement:
			if depth == unit {
				inside = 0
				units++
			}
			depth++
		case xml.EndElement:
			depth--
		}
		if inside++; inside > maxTokens || unit == 1 && units > maxStrings {
			return errBounds
		}
	}
}

// shortTokens fails where a text or a tag is too long to be read into memory. Comments and such, which may hold anything, are
// not in the sheets that spreadsheet programs write.
type shortTokens struct {
	from io.Reader
	run  int  // bytes since the last <
	tag  bool // the last byte was <
}

func (s *shortTokens) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if s.tag && rest[0] == '!' {
			return 0, errBounds
		}
		s.tag = false
		i := bytes.IndexByte(rest, '<')
		if i < 0 {
			s.run += len(rest)
			break
		}
		if s.run+i > maxToken {
			return 0, errBounds
		}
		s.run, s.tag, rest = 0, true, rest[i+1:]
	}
	if s.run > maxToken {
		return 0, errBounds
	}
	return n, err
}
