package sheet

import "io"

// ReadScaled is Read with its bounds divided, so that what breaks them is made and looked through in less time.
func ReadScaled(by int, file io.ReadSeeker, each func(Row) error) (Facts, error) {
	b := usual
	b.unpack, b.small = b.unpack/uint64(by), b.small/uint64(by)
	for _, bound := range []*int{&b.token, &b.tokens, &b.texts, &b.row, &b.number, &b.cells} {
		*bound /= by
	}
	return readWithin(b, file, each)
}
