package admin

import (
	"context"
	"errors"
	"slices"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// DeadPage is what waits for a person.
type DeadPage struct {
	Dead    []job.Dead `json:"dead"`             // steps, in the order of their making
	Cursor  string     `json:"cursor,omitempty"` // of the next page; empty after the last
	Unknown []Letter   `json:"unknown"`          // messages that the record does not know; on the first page only
}

// Dead lists the dead steps and the unknown messages of dead-letter queues. A stage that does not exist is a
// *StageError.
func (o *Operator) Dead(ctx context.Context, f job.DeadFilter) (DeadPage, error) {
	page := DeadPage{Dead: []job.Dead{}, Unknown: []Letter{}}
	if f.Stage != "" {
		if _, err := o.stages(f.Stage); err != nil {
			return page, err
		}
	}
	if f.After == "" { // first, as a look sweeps: what dies by it is listed
		var err error
		if page.Unknown, err = o.Letters.Unknown(ctx, f.Stage); err != nil {
			return page, err
		}
	}
	dead, err := o.Record.DeadSteps(ctx, f)
	page.Dead = append(page.Dead, dead...)
	if len(dead) == f.Limit {
		page.Cursor = dead[f.Limit-1].Step
	}
	return page, err
}

// Inspection is all that is known of one dead step, or of one unknown message.
type Inspection struct {
	*job.Dead
	Reason  *job.Reason   `json:"reason,omitempty"`  // that the submitter reads
	History []job.Attempt `json:"history,omitempty"` // every execution, oldest first
	Letter  *Letter       `json:"letter,omitempty"`
	Advice  string        `json:"advice"` // what to do next, for people
}

// Inspect returns one dead step, or one unknown message by its own ID. job.ErrEnded when the step is not dead, job.ErrNotFound
// when there is neither.
func (o *Operator) Inspect(ctx context.Context, id string) (Inspection, error) {
	d, err := o.Record.DeadStep(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return o.inspectLetter(ctx, id)
	}
	if err != nil {
		return Inspection{}, err
	}
	j, err := o.Record.Job(ctx, d.Tenant, d.Job)
	if err != nil {
		return Inspection{}, err
	}
	found := Inspection{Dead: &d, Reason: j.Reason, Advice: adviceOn(d, j)}
	if i := slices.IndexFunc(j.Steps, func(s job.Step) bool { return s.ID == id }); i >= 0 {
		found.History = j.Steps[i].History
	}
	return found, nil
}

func (o *Operator) inspectLetter(ctx context.Context, id string) (Inspection, error) {
	all, err := o.Letters.Unknown(ctx, "")
	if err != nil {
		return Inspection{}, err
	}
	i := slices.IndexFunc(all, func(l Letter) bool { return l.ID == id })
	if i < 0 {
		return Inspection{}, job.ErrNotFound
	}
	return Inspection{Letter: &all[i], Advice: "The record knows no work that this message stands for, so nothing can be redriven. " +
		"Find out who sent it, then discard it with: fleet dlq discard " + id}, nil
}

// adviceOn says what helps against a death of its kind.
func adviceOn(d job.Dead, j job.Job) string {
	redrive, discard := "fleet dlq redrive "+d.Step, "fleet dlq discard "+d.Step
	switch {
	case d.Overtaken:
		return "A newer version of the target has taken over, so nothing is left to redrive. Discard it with: " + discard
	case slices.ContainsFunc(j.Steps, func(s job.Step) bool { return s.State == job.Rejected }):
		return "Another part of the job was refused for its input, so the job cannot complete. Discard it with: " + discard
	case d.Class == "exhausted":
		return "Every attempt failed: see the reasons above and what the stage depends on. Once that works, redrive it with: " + redrive
	case d.Class == "crashed_out":
		return "Its workers vanished while they ran it, as by running out of memory: see their logs and limits. Then redrive it with: " + redrive
	}
	return "The stage could not make sense of its work, which is a defect of ours: mend and deploy the stage, then redrive it with: " + redrive +
		"; or give it up with: " + discard
}

// Redrive sets the dead steps of a job going again and returns the job. id is the job's or that of one of its steps.
// job.ErrEnded when nothing of it is dead or it cannot complete, job.ErrNotFound when there is no such job.
func (o *Operator) Redrive(ctx context.Context, id, who string) (job.Job, error) {
	return o.ofJob(ctx, id, func(job string) error { return o.Record.Redrive(ctx, job, who) })
}

// Discard gives up the dead steps of a job and returns the job, or deletes an unknown message and returns a job
// without ID. Errors are those of Redrive.
func (o *Operator) Discard(ctx context.Context, id, who, reason string) (job.Job, error) {
	j, err := o.ofJob(ctx, id, func(job string) error { return o.Record.Discard(ctx, job, who, reason) })
	if !errors.Is(err, job.ErrNotFound) {
		return j, err
	}
	_, err = o.Letters.Remove(ctx, id, func(l Letter) error { return o.Record.Audit(ctx, who, "discard", l.Queue+"/"+l.ID, reason) })
	return job.Job{}, err
}

func (o *Operator) ofJob(ctx context.Context, id string, order func(job string) error) (job.Job, error) {
	found, tenant, err := o.Record.JobOf(ctx, id)
	if err != nil {
		return job.Job{}, err
	}
	if err := order(found); err != nil {
		return job.Job{}, err
	}
	return o.Record.Job(ctx, tenant, found)
}
