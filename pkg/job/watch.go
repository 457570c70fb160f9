package job

import (
	"context"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
)

// Watched is a job of a tenant that somebody follows, and the number of the state that they have.
type Watched struct {
	Tenant, ID string
	Seq        int64
}

// Changed is what has become of what is followed.
type Changed struct {
	Jobs []Job    // whose number is not the one that was given, with their histories
	Keys []string // of those that were given, the ones that permit nothing any more
}

// Changes looks once for all who follow a job: one statement when nothing has changed, three more when something has,
// however many jobs there are. Jobs of other tenants than the given ones are left out, as unknown ones are.
func (s *Store) Changes(ctx context.Context, watched []Watched, keys []string) (Changed, error) {
	known := map[string]Watched{}
	ids := make([]string, len(watched))
	for i, w := range watched {
		known[w.ID], ids[i] = w, w.ID
	}
	var got Changed
	err := s.db.View(ctx, "changes", func(tx *sqldb.Tx) error {
		got = Changed{}
		moved, err := look(ctx, tx, known, ids, keys, &got)
		if err != nil || len(moved) == 0 {
			return err
		}
		jobs, err := readJobs(ctx, tx, "jobs_by_id", sqldb.Rows(idRows(moved)))
		if err != nil {
			return err
		}
		byID := map[string]*Job{}
		for _, j := range jobs {
			byID[j.ID] = j
		}
		if err := readHistories(ctx, tx, byID); err != nil {
			return err
		}
		for _, j := range jobs {
			got.Jobs = append(got.Jobs, *j)
		}
		return nil
	})
	if err != nil {
		return Changed{}, fmt.Errorf("look for changes: %w", err)
	}
	return got, nil
}

// look returns the jobs whose number has moved, and puts the keys that have ended into got.
func look(ctx context.Context, tx *sqldb.Tx, known map[string]Watched, ids, keys []string, got *Changed) ([]string, error) {
	var moved []string
	err := tx.Query(ctx, q("watch"), func(scan func(...any) error) error {
		var id, tenant string
		var seq int64
		if err := scan(&id, &tenant, &seq); err != nil {
			return err
		}
		if seq < 0 {
			got.Keys = append(got.Keys, id)
		} else if w := known[id]; w.Tenant == tenant && w.Seq != seq {
			moved = append(moved, id)
		}
		return nil
	}, sqldb.Rows(idRows(ids)), sqldb.Rows(idRows(keys)))
	return moved, err
}
