package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// brokenInARow is how often a read goes on after its connection broke without having brought a byte.
const brokenInARow = 3

// Open implements Store. A connection that breaks is made again for the bytes that are left.
func (s *S3) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.full(key)})
	if err != nil {
		return nil, s.failed("open", key, err)
	}
	if out.ContentLength == nil {
		return nil, errors.Join(errLength, out.Body.Close())
	}
	return &s3Content{ctx: ctx, store: s, key: key, size: *out.ContentLength, etag: out.ETag, body: out.Body}, nil
}

// errLength is of a store that is not S3's, or of something between: an object without a length would pass for an empty one.
var errLength = errors.New("open an object: the store does not say how long it is")

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
	if head.ContentLength == nil {
		return nil, errLength
	}
	return &s3Content{ctx: ctx, store: s, key: key, size: *head.ContentLength, etag: head.ETag}, nil
}

// s3Content reads an object from any place on. All of its bytes are of the object that was there at the beginning: every later
// request names its entity tag, and S3 answers 412 when another one has taken its place (Amazon S3 API Reference, "GetObject").
type s3Content struct {
	ctx    context.Context // of Open or Content
	store  *S3
	key    string
	size   int64
	etag   *string
	at     int64
	body   io.ReadCloser // from at on; nil until it is read
	broken int           // connections in a row that brought nothing
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
	c.at, c.broken = offset, 0
	return offset, nil
}

func (c *s3Content) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if c.at >= c.size {
			return 0, io.EOF
		}
		if err := c.request(); err != nil {
			return 0, err
		}
		n, err := c.body.Read(p[:min(int64(len(p)), c.size-c.at)])
		c.at += int64(n)
		if n > 0 {
			c.broken = 0
		}
		if err != nil {
			_ = c.Close() // the next read asks for what is left
		}
		if n > 0 {
			return n, nil
		}
		if err != nil {
			if c.broken++; c.broken >= brokenInARow || c.ctx.Err() != nil {
				return 0, c.brokenOff(err)
			}
		}
	}
	return 0, nil
}

func (c *s3Content) brokenOff(err error) error {
	if errors.Is(err, io.EOF) { // which would pass for the object's end
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read an object: %w", err)
}

// request asks for the bytes from at on, unless they are coming already.
func (c *s3Content) request() error {
	if c.body != nil {
		return nil
	}
	s := c.store
	out, err := s.client.GetObject(c.ctx, &s3.GetObjectInput{
		Bucket: &s.bucket, Key: s.full(c.key), Range: aws.String(fmt.Sprintf("bytes=%d-", c.at)), IfMatch: c.etag,
	})
	if err != nil {
		return s.failed("read", c.key, err)
	}
	if !strings.HasPrefix(aws.ToString(out.ContentRange), fmt.Sprintf("bytes %d-", c.at)) {
		return errors.Join(fmt.Errorf("read an object: the store gave range %q for bytes from %d on", aws.ToString(out.ContentRange), c.at), out.Body.Close())
	}
	c.body = out.Body
	return nil
}

func (c *s3Content) Close() error {
	if c.body == nil {
		return nil
	}
	err := c.body.Close()
	c.body = nil
	return err
}
