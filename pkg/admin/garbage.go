package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// collectBatch bounds how much one call of Collect looks at.
const collectBatch = 500

// Collected is what one collection of garbage removed, or would remove.
type Collected struct {
	DryRun   bool  `json:"dry_run"`
	Attempts int   `json:"attempts"` // executions that ended unpublished
	Uploads  int   `json:"uploads"`  // recordings that no job took, as after a refusal
	Objects  int   `json:"objects"`
	Bytes    int64 `json:"bytes"`
	More     bool  `json:"more"` // there is more: a call looks at 500 of each at most
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

// Collect removes the objects of executions that ended unpublished, and of uploads that no job has taken, both at least age
// ago; zero means Horizon, and less is an *AgeError. A dry run only counts. It may run anywhere and any number of times.
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
	all, err := o.Record.Garbage(ctx, age, collectBatch)
	if err != nil {
		return err
	}
	c.More = c.More || len(all) == collectBatch
	var gone []job.Garbage
	for _, g := range all {
		used, err := o.use(c.DryRun)(ctx, job.Folder(g.Job, g.Stage, g.Attempt))
		if err != nil {
			return errors.Join(err, o.collected(ctx, c, gone))
		}
		c.Attempts++
		c.add(used)
		gone = append(gone, g)
	}
	return o.collected(ctx, c, gone)
}

// use is how a folder is looked at.
func (o *Operator) use(dry bool) func(context.Context, string) (blob.Usage, error) {
	if dry {
		return o.Objects.Usage
	}
	return o.Objects.RemoveAll
}

func (o *Operator) collected(ctx context.Context, c *Collected, gone []job.Garbage) error {
	if c.DryRun || len(gone) == 0 {
		return nil
	}
	return o.Record.Collected(ctx, gone)
}

func (o *Operator) collectUploads(ctx context.Context, age time.Duration, c *Collected) error {
	all, err := o.Record.IdleUploads(ctx, age, collectBatch)
	if err != nil {
		return err
	}
	c.More = c.More || len(all) == collectBatch
	for _, folder := range all {
		if err := o.collectUpload(ctx, folder, c); err != nil {
			return err
		}
	}
	return nil
}

// collectUpload condemns an upload before its object goes, so that no job can take it meanwhile.
func (o *Operator) collectUpload(ctx context.Context, folder string, c *Collected) error {
	if !c.DryRun {
		if mine, err := o.Record.Condemn(ctx, folder); err != nil || !mine {
			return err
		}
	}
	used, err := o.use(c.DryRun)(ctx, folder)
	if err != nil {
		return err
	}
	c.Uploads++
	c.add(used)
	if c.DryRun {
		return nil
	}
	return o.Record.Dropped(ctx, folder)
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
			} else if c.Attempts+c.Uploads > 0 {
				did(c)
			}
		}
	}
}
