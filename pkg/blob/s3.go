package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

// PartSize is how much of an object is held in memory and uploaded at a time. S3 takes 10,000 parts of at least 5 MiB (Amazon S3
// User Guide, "Amazon S3 multipart upload limits"), so an object has at most about 156 GiB.
const PartSize = 16 << 20

const abortTime = 5 * time.Second

// S3 is a store in a bucket, under a prefix. Workers need no permission to list or to delete, the server does for garbage
// collection; a rule of the bucket should remove incomplete multipart uploads, which a crash leaves behind.
type S3 struct {
	client *s3.Client
	bucket string
	prefix string // empty, or with a slash at its end
}

// NewS3 returns a store that uses client.
func NewS3(client *s3.Client, bucket, prefix string) (*S3, error) {
	if bucket == "" {
		return nil, errors.New("object store address must name a bucket")
	}
	if prefix != "" {
		if err := CheckKey(prefix); err != nil {
			return nil, fmt.Errorf("object store prefix: %w", err)
		}
		prefix += "/"
	}
	return &S3{client: client, bucket: bucket, prefix: prefix}, nil
}

// openS3 uses the SDK's own environment, roles and transport: every request here may be repeated without harm. With an endpoint of one's own the bucket goes into the path, because such
// servers rarely have a host name for each bucket.
func openS3(ctx context.Context, bucket, prefix string) (*S3, error) {
	c, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	own := c.BaseEndpoint != nil || os.Getenv("AWS_ENDPOINT_URL_S3") != ""
	return NewS3(s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = own }), bucket, prefix)
}

// Create implements Store.
func (s *S3) Create(ctx context.Context, key string) (Writer, error) {
	if err := errors.Join(context.Cause(ctx), CheckKey(key)); err != nil {
		return nil, err
	}
	return &s3Writer{draft: newDraft(ctx, key), store: s}, nil
}

// Path implements Store with a copy in dir, which is made once.
func (s *S3) Path(ctx context.Context, key, dir string) (string, error) {
	name := sha256.Sum256([]byte(key))
	path := filepath.Join(dir, "object-"+hex.EncodeToString(name[:8]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	body, err := s.Open(ctx, key)
	if err != nil {
		return "", err
	}
	defer body.Close()
	file, err := os.CreateTemp(dir, "fetch-")
	if err != nil {
		return "", fmt.Errorf("fetch an object: %w", err)
	}
	defer os.Remove(file.Name()) // gone under that name on success
	_, err = io.Copy(file, body)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("fetch an object: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return "", fmt.Errorf("fetch an object: %w", err)
	}
	return path, nil
}

// Link implements Store with a copy inside S3, which takes objects of up to 5 GiB.
func (s *S3) Link(ctx context.Context, from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	source := s.bucket + "/" + (&url.URL{Path: *s.full(from)}).EscapedPath()
	_, err := s.client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &s.bucket, Key: s.full(to), CopySource: &source})
	if err != nil {
		return s.failed("link", from, err)
	}
	return nil
}

func (s *S3) full(key string) *string { return aws.String(s.prefix + key) }

func (s *S3) failed(verb, key string, err error) error {
	var answer smithy.APIError // not types.NoSuchKey, which CopyObject does not return
	if errors.As(err, &answer) {
		if kind, ok := ofObject[answer.ErrorCode()]; ok {
			return fmt.Errorf("%w: %s an object: %s: %w", kind, verb, key, err)
		}
	}
	return fmt.Errorf("%s an object: %w", verb, err)
}

// ofObject are the answers that are about one object (Amazon S3 API Reference, "Error responses"). Others, also with a status of
// 4xx, are about credentials, the clock, the bucket or the load, and would be the same for every object. Who may not list the
// bucket gets AccessDenied for an object that does not exist, and to HEAD an answer has its status only.
var ofObject = map[string]error{
	"NoSuchKey":          ErrNotFound,
	"KeyTooLongError":    ErrKey, // the prefix counts too
	"InvalidURI":         ErrKey,
	"AccessDenied":       ErrUnreadable,
	"Forbidden":          ErrUnreadable,
	"InvalidObjectState": ErrUnreadable, // archived
	"InvalidRequest":     ErrUnreadable, // encrypted with a key that only its owner has
	"MethodNotAllowed":   ErrUnreadable,
}

// s3Writer uploads part by part, and an object that fits into one part in a single request.
type s3Writer struct {
	draft
	store  *S3
	buffer bytes.Buffer
	upload *string // of a multipart upload; nil until the first part is full
	parts  []types.CompletedPart
}

func (w *s3Writer) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), PartSize-w.buffer.Len())
		w.buffer.Write(p[:n])
		w.wrote(p[:n])
		written += n
		p = p[n:]
		if w.buffer.Len() == PartSize {
			if err := w.send(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// send uploads the buffer as the next part.
func (w *s3Writer) send() error {
	s := w.store
	if w.upload == nil {
		out, err := s.client.CreateMultipartUpload(w.ctx, &s3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: s.full(w.key), ContentType: aws.String(TypeOf(w.key))})
		if err != nil {
			return s.failed("start", w.key, err)
		}
		w.upload = out.UploadId
	}
	number := int32(len(w.parts) + 1) // S3 refuses part 10,001
	out, err := s.client.UploadPart(w.ctx, &s3.UploadPartInput{Bucket: &s.bucket, Key: s.full(w.key), UploadId: w.upload, PartNumber: &number, Body: bytes.NewReader(w.buffer.Bytes())})
	if err != nil {
		return s.failed("write", w.key, err)
	}
	w.parts = append(w.parts, types.CompletedPart{ETag: out.ETag, PartNumber: &number, ChecksumCRC32: out.ChecksumCRC32})
	w.buffer.Reset()
	return nil
}

func (w *s3Writer) Commit() (recording.Object, error) { return w.commit(w.appear, w.Abort) }

func (w *s3Writer) appear() error {
	s := w.store
	if w.upload == nil {
		_, err := s.client.PutObject(w.ctx, &s3.PutObjectInput{Bucket: &s.bucket, Key: s.full(w.key), ContentType: aws.String(TypeOf(w.key)), Body: bytes.NewReader(w.buffer.Bytes())})
		if err != nil {
			return s.failed("write", w.key, err)
		}
		return nil
	}
	if w.buffer.Len() > 0 {
		if err := w.send(); err != nil {
			return err
		}
	}
	_, err := s.client.CompleteMultipartUpload(w.ctx, &s3.CompleteMultipartUploadInput{Bucket: &s.bucket, Key: s.full(w.key), UploadId: w.upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: w.parts}})
	if err != nil {
		return s.failed("complete", w.key, err)
	}
	return nil
}

// Abort gives the parts back. It works after the context has ended, because that is often why it is called.
func (w *s3Writer) Abort() error {
	if w.ended || w.upload == nil {
		w.ended = true
		return nil
	}
	w.ended = true
	s := w.store
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTime)
	defer cancel()
	if _, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: s.full(w.key), UploadId: w.upload}); err != nil {
		return s.failed("abort", w.key, err)
	}
	return nil
}
