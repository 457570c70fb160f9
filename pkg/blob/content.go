package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
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

// Content implements Store: it asks for the object's size, and for bytes at the first read after a seek.
func (s *S3) Content(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	head, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: s.full(key)})
	if answer, ok := errors.AsType[smithy.APIError](err); ok && answer.ErrorCode() == "NotFound" { // an answer to HEAD has no body to say more
		return nil, fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	if err != nil {
		return nil, s.failed("look up", key, err)
	}
	return &s3Content{ctx: ctx, store: s, key: key, size: aws.ToInt64(head.ContentLength)}, nil
}

// s3Content reads an object from any place on.
type s3Content struct {
	ctx   context.Context // of Content
	store *S3
	key   string
	size  int64
	at    int64
	body  io.ReadCloser // from at on; nil until it is read
}

func (c *s3Content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of an object")
	}
	if offset != c.at {
		_ = c.Close() // what follows the old place is not wanted
	}
	c.at = offset
	return offset, nil
}

func (c *s3Content) Read(p []byte) (int, error) {
	if c.at >= c.size {
		return 0, io.EOF
	}
	if c.body == nil {
		s := c.store
		out, err := s.client.GetObject(c.ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.full(c.key), Range: aws.String(fmt.Sprintf("bytes=%d-", c.at))})
		if err != nil {
			return 0, s.failed("open", c.key, err)
		}
		c.body = out.Body
	}
	n, err := c.body.Read(p)
	c.at += int64(n)
	return n, err
}

func (c *s3Content) Close() error {
	if c.body == nil {
		return nil
	}
	err := c.body.Close()
	c.body = nil
	return err
}
