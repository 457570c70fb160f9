package sheet

import (
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	dateText  = regexp.MustCompile(`^(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}[- ][A-Za-z]{3}[- ]\d{2,4})([ T]\d{1,2}:\d{2}.*)?$`)
	errorText = []string{"#REF!", "#N/A", "#NAME?", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!"}
)

// KindOf tells what a value looks like.
func KindOf(text string) Kind {
	_, err := strconv.ParseFloat(text, 64)
	switch upper := strings.ToUpper(text); {
	case text == "":
		return Empty
	case slices.Contains(errorText, upper):
		return Fault
	case text[0] == '=':
		return Formula
	case err == nil:
		return Number
	case dateText.MatchString(text):
		return Date
	case upper == "TRUE" || upper == "FALSE":
		return Boolean
	}
	return Text
}

// risky begins what a spreadsheet program may take for a formula (OWASP, "CSV Injection").
const risky = "=+-@\t\r"

// safe keeps a value from being run by the program that opens the sheet; bare is its inverse.
func safe(cell string) string {
	if cell != "" && strings.IndexByte(risky, cell[0]) >= 0 {
		return "'" + cell
	}
	return cell
}

func bare(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && strings.IndexByte(risky, cell[1]) >= 0 {
		return cell[1:]
	}
	return cell
}

// hash stands for a target and version: of 200,000 rows two share one by chance once in 900 million sheets.
func hash(target string, version int64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(target + "\x00" + strconv.FormatInt(version, 10)))
	return h.Sum64()
}
