package api

import (
	"encoding/base64"
	"net/http"
	"regexp"
)

// A cursor is the identifier that the next page begins after, sealed so that nobody builds on what is in it. Lists are by
// identifiers, which only grow, so a page stays what it is while others submit.

const cursorVersion = "1"

var cursorText = regexp.MustCompile(`^[0-9a-zA-Z._-]{1,64}$`)

func sealCursor(last string) string {
	if last == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(cursorVersion + last))
}

// openCursor returns the identifier in a cursor; an empty one is the beginning.
func openCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) == 0 || string(raw[:1]) != cursorVersion || !cursorText.Match(raw[1:]) {
		return "", problem(http.StatusBadRequest, "cursor", "The cursor is none that a page has given.")
	}
	return string(raw[1:]), nil
}
