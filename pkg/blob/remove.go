package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Usage implements Store.
func (f *Folder) Usage(ctx context.Context, folder string) (Usage, error) {
	var all Usage
	if err := errors.Join(context.Cause(ctx), CheckKey(folder)); err != nil {
		return all, err
	}
	err := filepath.WalkDir(f.file(folder), func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			all.Objects++
			all.Bytes += info.Size()
		}
		return err
	})
	if err != nil {
		return all, fmt.Errorf("look through the objects of a folder: %w", err)
	}
	return all, nil
}

// RemoveAll implements Store.
func (f *Folder) RemoveAll(ctx context.Context, folder string) (Usage, error) {
	all, err := f.Usage(ctx, folder)
	if err != nil {
		return Usage{}, err
	}
	if err := os.RemoveAll(f.file(folder)); err != nil {
		return Usage{}, fmt.Errorf("remove the objects of a folder: %w", err)
	}
	return all, nil
}

// Usage implements Store. It needs the permission to list.
func (s *S3) Usage(ctx context.Context, folder string) (Usage, error) {
	return s.walk(ctx, folder, func(types.Object) error { return nil })
}

// RemoveAll implements Store. It needs the permissions to list and to delete.
func (s *S3) RemoveAll(ctx context.Context, folder string) (Usage, error) {
	return s.walk(ctx, folder, func(o types.Object) error {
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: o.Key})
		return err
	})
}

// walk calls see for each object of a folder and counts those that it had no fault with.
func (s *S3) walk(ctx context.Context, folder string, see func(types.Object) error) (Usage, error) {
	var all Usage
	if err := CheckKey(folder); err != nil {
		return all, err
	}
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: s.full(folder + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return all, s.failed("list", folder, err)
		}
		for _, o := range page.Contents {
			if err := see(o); err != nil {
				return all, s.failed("remove", folder, err)
			}
			all.Objects++
			all.Bytes += aws.ToInt64(o.Size)
		}
	}
	return all, nil
}
