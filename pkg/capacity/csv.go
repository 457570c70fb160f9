package capacity

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// The columns of a sheet of attempts. The first is required; without requests an attempt is taken to make one.
const (
	ColumnDuration = "duration_s" // seconds, above 0
	ColumnRequests = "requests"
	ColumnInput    = "input_tokens"
	ColumnOutput   = "output_tokens"
)

// CSVError says where a sheet cannot be used. Rows and columns count from 1; row 1 is the header.
type CSVError struct {
	Row, Column int    // Column 0: the row as a whole
	Name        string // of the column, if it has one
	Problem     string
}

// Error returns one sentence with row and column.
func (e *CSVError) Error() string {
	where := fmt.Sprintf("row %d", e.Row)
	if e.Column > 0 {
		where += fmt.Sprintf(", column %d", e.Column)
	}
	if e.Name != "" {
		where += " (" + e.Name + ")"
	}
	return where + ": " + e.Problem
}

const (
	maxCount   = 1 << 50 // of anything in one attempt
	maxSeconds = 1e9
)

// ReadCSV reads attempts from comma-separated values with a header that names the columns, in any order; columns of
// other names are not read. The error is a *CSVError, or that of the reader.
func ReadCSV(r io.Reader) ([]Sample, error) {
	sheet := csv.NewReader(r)
	sheet.FieldsPerRecord = -1
	sheet.ReuseRecord = true
	header, err := sheet.Read()
	if err != nil {
		return nil, csvFault(1, err)
	}
	column, err := columns(header)
	if err != nil {
		return nil, err
	}
	width := len(header)
	var samples []Sample
	for row := 2; ; row++ {
		record, err := sheet.Read()
		switch {
		case errors.Is(err, io.EOF):
			return samples, nil
		case err != nil:
			return nil, csvFault(row, err)
		case len(record) != width:
			return nil, &CSVError{Row: row, Problem: fmt.Sprintf("it has %d columns, must have %d like the header", len(record), width)}
		}
		s, err := sample(row, record, column)
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
}

func columns(header []string) (map[string]int, error) {
	column := map[string]int{}
	for i, name := range header {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := column[name]; twice && name != "" {
			return nil, &CSVError{Row: 1, Column: i + 1, Name: name, Problem: "the header names it twice"}
		}
		column[name] = i
	}
	if _, ok := column[ColumnDuration]; !ok {
		return nil, &CSVError{Row: 1, Problem: fmt.Sprintf("it must name the columns, separated by commas, among them %s; %s, %s and %s are the others",
			ColumnDuration, ColumnRequests, ColumnInput, ColumnOutput)}
	}
	return column, nil
}

func sample(row int, record []string, column map[string]int) (Sample, error) {
	s := Sample{Requests: 1}
	i := column[ColumnDuration]
	seconds, err := strconv.ParseFloat(strings.TrimSpace(record[i]), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 1e-6 || seconds > maxSeconds {
		return s, &CSVError{row, i + 1, ColumnDuration, fmt.Sprintf("%.40q must be a number of seconds above 0, such as 316 or 12.5", record[i])}
	}
	s.Duration = time.Duration(seconds * float64(time.Second))
	for _, c := range []struct {
		name  string
		count *int64
	}{{ColumnRequests, &s.Requests}, {ColumnInput, &s.InputTokens}, {ColumnOutput, &s.OutputTokens}} {
		i, ok := column[c.name]
		if !ok {
			continue
		}
		*c.count, err = strconv.ParseInt(strings.TrimSpace(record[i]), 10, 64)
		if err != nil || *c.count < 0 || *c.count > maxCount {
			return s, &CSVError{row, i + 1, c.name, fmt.Sprintf("%.40q must be a whole number, 0 or more", record[i])}
		}
	}
	return s, nil
}

// csvFault says a fault of the reader in this package's words.
func csvFault(row int, err error) error {
	if errors.Is(err, io.EOF) {
		return &CSVError{Row: row, Problem: "the sheet is empty; it must begin with a header that names " + ColumnDuration}
	}
	if fault, ok := errors.AsType[*csv.ParseError](err); ok {
		return &CSVError{Row: row, Problem: fmt.Sprintf("it cannot be read as comma-separated values: %v", fault.Err)}
	}
	return fmt.Errorf("read the sheet: %w", err)
}
