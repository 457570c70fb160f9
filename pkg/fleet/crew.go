package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/localecs"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// crew is the record as a local fleet's overview sees it. The record learns of a worker's death by its silence; here the
// processes are known, so that a killed worker does not count beside its replacement.
type crew struct {
	*job.Store
	tasks func() []localecs.Task // that run
}

// Workers leaves out the reports of processes that are gone. A worker's ID ends with its process number.
func (c crew) Workers(ctx context.Context, age time.Duration) ([]job.WorkerStatus, error) {
	reports, err := c.Store.Workers(ctx, age)
	running := c.tasks()
	return slices.DeleteFunc(reports, func(w job.WorkerStatus) bool {
		return !slices.ContainsFunc(running, func(t localecs.Task) bool {
			return t.Service == w.Stage && strings.HasSuffix(w.ID, fmt.Sprintf("-%d", t.PID))
		})
	}), err
}
