package blob

import (
	"context"
	"io"
	"os"
)

// Content implements Store: the object's own file.
func (f *Folder) Content(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	path, err := f.Path(ctx, key, "")
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, notOpened(key, err)
	}
	return file, nil
}
