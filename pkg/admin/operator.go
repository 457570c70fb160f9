package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Operator carries out what a person orders. It is safe for concurrent use.
type Operator struct {
	Stages  []stage.Stage // with their defaults, in the order of the work
	Record  *job.Store
	Letters *Sweeper
	Objects blob.Store

	Unremoved func(folder string, err error) // told of garbage that could not be removed; nil: it is only counted
}

// StageError says that there is no stage of that name.
type StageError struct {
	Name  string
	Known []string
}

// Error names the stages that there are.
func (e *StageError) Error() string {
	return fmt.Sprintf("there is no stage %q, only %s", e.Name, strings.Join(e.Known, ", "))
}

// stages returns those that a name stands for: one, or every one for All.
func (o *Operator) stages(name string) ([]stage.Stage, error) {
	if name == All {
		return o.Stages, nil
	}
	var known []string
	for _, s := range o.Stages {
		if s.Name == name {
			return []stage.Stage{s}, nil
		}
		known = append(known, s.Name)
	}
	return nil, &StageError{Name: name, Known: append(known, All)}
}

// Cancel ends a job, for the reason that the audit keeps, and returns it. It may be repeated: a job that was cancelled is
// returned as it is. job.ErrEnded when it had ended otherwise; then the job is returned too.
func (o *Operator) Cancel(ctx context.Context, tenant, id, who, reason string) (job.Job, error) {
	ended := o.Record.Cancel(ctx, tenant, id, who, reason)
	if ended != nil && !errors.Is(ended, job.ErrEnded) {
		return job.Job{}, ended
	}
	j, err := o.Record.Job(ctx, tenant, id)
	if err == nil && ended != nil && j.State != job.Cancelled {
		err = ended
	}
	return j, err
}

// Horizon is the longest time for which an owner that has lost its step may still be writing: until its time limit ends it,
// its lease is seen to be gone and its process is stopped.
func (o *Operator) Horizon() time.Duration {
	var longest time.Duration
	for _, s := range o.Stages {
		longest = max(longest, s.Profile.TimeLimit+s.Durations.Lease+s.Durations.StopTimeout)
	}
	return longest
}
