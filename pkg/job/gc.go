package job

import (
	"context"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Garbage is an execution that ended unpublished: whatever objects it left in its Folder nobody refers to.
type Garbage struct {
	Job, Stage, Attempt string
}

// Folder is where the objects of an execution are. The stage is in it so that a worker can be kept from writing as another.
func Folder(job, stage, attempt string) string { return "jobs/" + job + "/" + stage + "/" + attempt }

// Garbage lists executions that ended unpublished at least age ago, after the first skip of them at most limit. age must be longer than any
// lease can last, because an owner that has lost its lease may still be writing.
func (s *Store) Garbage(ctx context.Context, age time.Duration, skip, limit int) ([]Garbage, error) {
	var all []Garbage
	err := s.db.View(ctx, "garbage", func(tx *sqldb.Tx) error {
		all = nil
		return tx.Query(ctx, q("garbage"), func(scan func(...any) error) error {
			var g Garbage
			err := scan(&g.Attempt, &g.Job, &g.Stage)
			all = append(all, g)
			return err
		}, age.Microseconds(), limit, skip)
	})
	if err != nil {
		return nil, fmt.Errorf("list garbage: %w", err)
	}
	return all, nil
}

// Collected notes that the objects of these executions are gone.
func (s *Store) Collected(ctx context.Context, gone []Garbage) error {
	ids := make([]string, len(gone))
	for i, g := range gone {
		ids[i] = g.Attempt
	}
	err := s.db.UpdateRelaxed(ctx, "collected", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("collected"), sqldb.Rows(idRows(ids)))
		return err
	})
	if err != nil {
		return fmt.Errorf("note collected garbage: %w", err)
	}
	return nil
}

// Uploaded notes that an object is about to appear under a folder of its own, for a submission that names it. Unless a job
// takes it, it is garbage.
func (s *Store) Uploaded(ctx context.Context, folder string) error {
	err := s.db.UpdateRelaxed(ctx, "uploaded", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("add_upload"), folder)
		return err
	})
	if err != nil {
		return fmt.Errorf("note an upload: %w", err)
	}
	return nil
}

// KeepUpload is Uploaded for an object that somebody was promised to find until then: before, it is no garbage.
func (s *Store) KeepUpload(ctx context.Context, folder string, until time.Time) error {
	err := s.db.UpdateRelaxed(ctx, "keep_upload", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("keep_upload"), folder, micros(until))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep an upload: %w", err)
	}
	return nil
}

// IdleUploads lists folders of uploads that no job has taken for at least age, condemned ones first, after the first skip of them at
// most limit.
func (s *Store) IdleUploads(ctx context.Context, age time.Duration, skip, limit int) ([]string, error) {
	return s.strings(ctx, "idle_uploads", age.Microseconds(), limit, skip)
}

// Condemn lets no job take an upload any more, so that its object may be removed. It says false when a job has taken it.
func (s *Store) Condemn(ctx context.Context, folder string) (bool, error) {
	n := int64(0)
	err := s.db.Update(ctx, "condemn", func(tx *sqldb.Tx) (err error) {
		n, err = tx.Exec(ctx, q("condemn_upload"), folder)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("condemn an upload: %w", err)
	}
	return n == 1, nil
}

// Dropped notes that the object of a condemned upload is gone.
func (s *Store) Dropped(ctx context.Context, folder string) error {
	err := s.db.UpdateRelaxed(ctx, "dropped", func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, q("drop_upload"), folder)
		return err
	})
	if err != nil {
		return fmt.Errorf("note a dropped upload: %w", err)
	}
	return nil
}
