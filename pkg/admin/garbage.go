package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const (
	collectBatch = 500              // bounds how much of each kind one call of Collect removes
	hopeless     = 4 * collectBatch // when so many cannot be removed, it is not these
)

// Collected is what one collection of garbage removed, or would remove.
type Collected struct {
	DryRun   bool  `json:"dry_run"`
	Attempts int   `json:"attempts"` // executions that ended unpublished
	Uploads  int   `json:"uploads"`  // recordings that no job took, as after a refusal, and sheets of ended imports
	Objects  int   `json:"objects"`
	Bytes    int64 `json:"bytes"`
	Failed   int   `json:"failed"` // attempts and uploads whose objects could not be removed; they are tried again
	More     bool  `json:"more"`   // there is more: a call removes those of 500 of each at most
}

func (c *Collected) add(u blob.Usage) {
	c.Objects += u.Objects
	c.Bytes += u.Bytes
}

// AgeError says that garbage is asked for that may still be written to.
type AgeError struct{ Age, Least time.Duration }

// Error names the bound.
func (e *AgeError) Error() string {
	return fmt.Sprintf("the age is %v, must be %v or more: a worker that has lost its lease may still be writing", e.Age, e.Least)
}

// Collect removes the objects of executions that ended unpublished, of uploads that no job has taken, and what ended imports have
// left, all at least age ago; zero means Horizon, and less is an *AgeError. A dry run only counts. It may run anywhere and any
// number of times. What cannot be removed is counted, told to Unremoved and passed over; an error is one of the record.
func (o *Operator) Collect(ctx context.Context, age time.Duration, dry bool, who string) (Collected, error) {
	if age == 0 {
		age = o.Horizon()
	}
	if age < o.Horizon() {
		return Collected{}, &AgeError{Age: age, Least: o.Horizon()}
	}
	c := Collected{DryRun: dry}
	err := errors.Join(o.collectAttempts(ctx, age, &c), o.collectUploads(ctx, age, &c))
	if !dry && c.Objects > 0 {
		err = errors.Join(err, o.Record.Audit(ctx, who, "gc", "objects", fmt.Sprintf("%d objects, %d bytes", c.Objects, c.Bytes)))
	}
	return c, err
}

func (o *Operator) collectAttempts(ctx context.Context, age time.Duration, c *Collected) error {
	return o.pages(ctx, c, func(skip int) (looked, failed int, err error) {
		all, err := o.Record.Garbage(ctx, age, skip, collectBatch)
		var gone []job.Garbage
		for _, g := range all {
			if !o.empty(ctx, job.Folder(g.Job, g.Stage, g.Attempt), c) {
				failed++
				continue
			}
			c.Attempts++
			gone = append(gone, g)
		}
		if err == nil && !c.DryRun && len(gone) > 0 {
			err = o.Record.Collected(ctx, gone)
		}
		return len(all), failed, err
	})
}

func (o *Operator) collectUploads(ctx context.Context, age time.Duration, c *Collected) error {
	return o.pages(ctx, c, func(skip int) (looked, failed int, err error) {
		all, err := o.Record.IdleUploads(ctx, age, skip, collectBatch)
		for _, folder := range all {
			removed, err := o.collectUpload(ctx, folder, c)
			if err != nil {
				return len(all), failed, err
			}
			if !removed {
				failed++
			}
		}
		return len(all), failed, err
	})
}

// pages collects from one page of garbage, and from the next as long as nothing of one can be removed. What failed comes
// first in every page, so it is skipped.
func (o *Operator) pages(ctx context.Context, c *Collected, page func(skip int) (looked, failed int, err error)) error {
	for skip := 0; skip < hopeless; {
		looked, failed, err := page(skip)
		c.Failed += failed
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if looked < collectBatch {
			return nil
		}
		if failed < looked {
			c.More = true
			return nil
		}
		skip += failed
	}
	return nil
}

// collectUpload condemns an upload before its object goes, so that no job can take it meanwhile. It says false when the object could not
// be removed.
func (o *Operator) collectUpload(ctx context.Context, folder string, c *Collected) (bool, error) {
	if !c.DryRun {
		if mine, err := o.Record.Condemn(ctx, folder); err != nil || !mine {
			return true, err
		}
	}
	if !o.empty(ctx, folder, c) {
		return false, nil
	}
	c.Uploads++
	if c.DryRun {
		return true, nil
	}
	return true, o.Record.Dropped(ctx, folder)
}

// empty removes, or in a dry run counts, what is in a folder, and reports whether it could.
func (o *Operator) empty(ctx context.Context, folder string, c *Collected) bool {
	do := o.Objects.RemoveAll
	if c.DryRun {
		do = o.Objects.Usage
	}
	used, err := do(ctx, folder)
	if err != nil {
		if o.Unremoved != nil {
			o.Unremoved(folder, err)
		}
		return false
	}
	c.add(used)
	return true
}

// collectEvery is how often the server collects by itself.
const collectEvery = time.Hour

// Collecting collects garbage now and then until ctx ends, on the one server that leads. failed is told of a collection that
// failed; the next one tries again.
func (o *Operator) Collecting(ctx context.Context, did func(Collected), failed func(error)) error {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for more := o.Record.Leads(ctx); more && ctx.Err() == nil; {
			c, err := o.Collect(ctx, 0, false, "server")
			more = c.More && err == nil
			if err != nil {
				failed(err)
			} else if c.Attempts+c.Uploads+c.Failed > 0 {
				did(c)
			}
		}
	}
}
