package sheet

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A workbook of a few kilobytes may unpack to whatever it likes, and what a library makes of a part may be fifty times as large as
// the part. So a workbook is looked through as a stream before it is opened, and refused beyond bounds that no sheet of
// recordings comes near.
type bounds struct {
	unpack uint64 // bytes that all parts have together
	small  uint64 // bytes of the parts that are read as a whole: styles, relations and such
	token  int    // bytes of one text or tag; a cell holds 32,767 characters
	tokens int    // within the cells of one row, or one shared text; a row has 16,384 cells
	texts  int    // shared ones
	row    int    // bytes of text that one row has, each shared text as often as the row refers to it
	number int    // of a row; as many as spreadsheet programs have
	cells  int    // that are looked at, those of rows without values too
}

var usual = bounds{
	unpack: 128 << 20, small: 8 << 20, token: 256 << 10, tokens: 200_000, texts: 1_000_000, row: 32 << 20, number: 1_048_576, cells: 50_000_000,
}

// spillAt is the size of a sheet or of the shared texts beyond which they are unpacked into a temporary file.
const spillAt = 1 << 20

var errBounds = errors.New("beyond the bounds of a workbook")

// guard returns errBounds for a workbook that would take too much memory, and another error for what is no workbook.
func guard(file io.ReaderAt, size int64, b bounds) error {
	book, err := zip.NewReader(file, size)
	if err != nil {
		return err
	}
	var all, small uint64
	most := map[unit]extent{}
	for _, part := range book.File {
		n := part.UncompressedSize64
		if n > b.unpack {
			return errBounds
		}
		all += n
		kind, err := kindOf(part)
		if err != nil {
			return err
		}
		if kind == atOnce {
			small += n
		}
		if all > b.unpack || small > b.small {
			return errBounds
		}
		if kind == byRow || kind == byText {
			seen, err := measure(part, kind, b)
			if err != nil {
				return err
			}
			most[kind] = extent{bytes: max(most[kind].bytes, seen.bytes), shared: max(most[kind].shared, seen.shared)}
		}
	}
	if most[byRow].bytes+most[byRow].shared*most[byText].bytes > b.row {
		return errBounds
	}
	return nil
}

// unit is what of a part is in memory at a time.
type unit struct{ name, inner string } // of elements: the unit's own, and those in which it keeps what it has

var (
	byRow    = unit{"row", "c"}
	byText   = unit{"si", "si"}
	atOnce   = unit{name: "all"}
	unparsed = unit{}
)

// kindOf finds out how a part is read. Which part is the workbook and which are its sheets, the archive itself says: whatever is
// text may be one of them, whatever its name.
func kindOf(part *zip.File) (unit, error) {
	switch name := strings.ToLower(strings.ReplaceAll(part.Name, `\`, "/")); {
	case strings.HasPrefix(name, "xl/worksheets/sheet"):
		return byRow, nil
	case name == "xl/sharedstrings.xml":
		return byText, nil
	}
	content, err := part.Open()
	if err != nil {
		return unparsed, err
	}
	defer func() { _ = content.Close() }()
	if isText(content) {
		return atOnce, nil
	}
	return unparsed, nil
}

// isText reports whether an XML parser gets to the first tag of a part: before it, what is no text stops it.
func isText(content io.Reader) bool {
	const far = 4096 // characters in which no kind of file hides that it is binary
	head := bufio.NewReaderSize(content, far)
	for range far {
		char, size, err := head.ReadRune()
		switch {
		case err != nil || char == '<':
			return true
		case char == utf8.RuneError && size == 1, char < ' ' && !strings.ContainsRune("\t\r\n", char):
			return false
		}
	}
	return true
}

// extent is the most that one unit of a part has.
type extent struct{ bytes, shared int } // of text; references to shared texts

// measure looks through a part that is read one unit at a time, as the library reads it: a unit begins wherever its element does,
// except in what an earlier one keeps.
func measure(part *zip.File, of unit, b bounds) (extent, error) {
	content, err := part.Open()
	if err != nil {
		return extent{}, err
	}
	defer func() { _ = content.Close() }()
	m := meter{of: of, within: b}
	tokens := xml.NewDecoder(&shortTokens{from: content, most: b.token})
	for {
		token, err := tokens.RawToken()
		if errors.Is(err, io.EOF) {
			return m.most, nil
		}
		if err != nil {
			return extent{}, err
		}
		if !m.takes(token) {
			return extent{}, errBounds
		}
	}
}

// meter follows the tokens of a part.
type meter struct {
	of     unit
	within bounds
	most   extent
	now    extent // of the unit so far
	tokens int    // in the unit so far
	units  int
	number int // of the row
	depth  int
	open   int // depth of the inner element; 0: outside
}

// takes reports whether a token keeps within the bounds.
func (m *meter) takes(token xml.Token) bool {
	switch t := token.(type) {
	case xml.StartElement:
		if m.open == 0 && t.Name.Local == m.of.name && !m.begin(t) {
			return false
		}
		m.depth++
		if m.open == 0 && t.Name.Local == m.of.inner {
			m.open = m.depth
			m.now.shared += len(attributes(t, "t", "s"))
		}
	case xml.EndElement:
		if m.depth == m.open {
			m.open = 0
		}
		m.depth--
	case xml.CharData:
		if m.open > 0 {
			m.now.bytes += len(t)
		}
	}
	if m.open > 0 {
		m.tokens++
	}
	m.most = extent{bytes: max(m.most.bytes, m.now.bytes), shared: max(m.most.shared, m.now.shared)}
	return m.tokens <= m.within.tokens && m.now.bytes <= m.within.row
}

// begin begins a unit. Rows that are not in order would count as one.
func (m *meter) begin(t xml.StartElement) bool {
	m.tokens, m.now = 0, extent{}
	m.units++
	if m.of == byText {
		return m.units <= m.within.texts
	}
	before := m.number
	m.number++
	for _, r := range attributes(t, "r", "") {
		if n, err := strconv.Atoi(r); err == nil && n != 0 {
			m.number = n
		}
	}
	return m.number > before
}

// attributes are the values of an element's attributes of a name, all or those that are one.
func attributes(t xml.StartElement, name, one string) []string {
	var all []string
	for _, a := range t.Attr {
		if a.Name.Local == name && (one == "" || a.Value == one) {
			all = append(all, a.Value)
		}
	}
	return all
}

// shortTokens fails where a text or a tag is too long to be read into memory. Comments and such, which may hold anything, are
// not in the sheets that spreadsheet programs write.
type shortTokens struct {
	from io.Reader
	most int  // bytes of a text or tag
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
		if s.run+i > s.most {
			return 0, errBounds
		}
		s.run, s.tag, rest = 0, true, rest[i+1:]
	}
	if s.run > s.most {
		return 0, errBounds
	}
	return n, err
}
