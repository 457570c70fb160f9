package localsqs

import "unicode/utf8"

// Masks for eight bytes at a time.
const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// plainRun returns how many leading bytes of s are printable ASCII without quotes and backslashes, or a little fewer.
// Message bodies are mostly that, and looking at them byte by byte is what a request would spend most of its time on.
func plainRun(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		v := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, backslash := v^eachByte*'"', v^eachByte*'\\'
		if (v|(v-eachByte*' ')|(quote-eachByte)|(backslash-eachByte))&highBits != 0 {
			break
		}
	}
	return i
}

// validText reports whether a body holds only the characters that SQS allows.
// Source: SQS API reference, SendMessage.
func validText(s string) bool {
	s = s[plainRun(s):]
	for i, r := range s {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= 0x20 && r <= 0xD7FF, r >= 0xE000 && r < utf8.RuneError, r >= 0x10000:
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false // not UTF-8 at all, as opposed to a replacement character that was sent
			}
		default:
			return false
		}
	}
	return true
}

// maxID is the longest id of a group, a deduplication or a receive attempt.
const maxID = 128

// validID reports whether s may be such an id: ASCII letters, digits and punctuation.
func validID(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxID
}

// maxEntryID is the longest id of a batch entry.
const maxEntryID = 80

// validEntryID reports whether s may be such an id: letters, digits, hyphens and underscores.
func validEntryID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= maxEntryID
}
