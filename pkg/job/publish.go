package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/internal/sqldb"
	"github.com/stagefleet/stagefleet/pkg/outcome"
)

// Reasons of refused publications and endings; when the step has ended the reason is its state.
const (
	ReasonStaleOwner = "stale_owner" // somebody else runs the step now
	ReasonLapsed     = "lapsed"      // nobody does, but the lease had ended: the step was released
)

// Publish commits the success of an execution: its outputs, the steps that follow and their messages, in one
// transaction. It is accepted only while the claim's lease stands and no newer version has taken over; a refused
// publication has changed nothing but may have released the step or ended it as superseded. ErrInvalidPublication
// says that trying again is useless. Give Outgoing to Dispatch at once.
func (s *Store) Publish(ctx context.Context, p Publication) (Published, error) {
	if err := p.validate(); err != nil {
		return Published{}, fmt.Errorf("publish: %w: %w", ErrInvalidPublication, err)
	}
	var got Published
	var err error
	if p.mayEndJobs() || p.passesWindow() {
		var one []Published
		if one, err = s.publishBatch(ctx, lockAllPaid, []Publication{p}); err == nil {
			got = one[0]
		}
	} else {
		got, err = s.publications.do(ctx, p)
	}
	if err == nil && !got.Accepted {
		s.metrics.stale.WithLabelValues(p.Claim.Stage, got.Reason).Inc()
	}
	return got, err
}

func (p Publication) validate() error {
	switch {
	case len(p.Output) > 0 && !validJSON(p.Output):
		return errors.New("Output is not JSON in UTF-8")
	case len(p.Parts) > 0 && !p.FanOut:
		return errors.New("Parts without FanOut")
	case p.FanOut && len(p.Parts) > 0 && p.Next == nil:
		return errors.New("FanOut without Next for its parts")
	case p.FanOut && len(p.Parts) == 0 && p.Join == nil:
		return errors.New("FanOut without parts and without Join")
	}
	for i, part := range p.Parts {
		if !validJSON(part) {
			return fmt.Errorf("Parts[%d] is not JSON in UTF-8", i)
		}
	}
	return nil
}

// mayEndJobs: the last step ends its own job, a result's version may end older ones.
func (p Publication) mayEndJobs() bool { return p.Next == nil && !p.FanOut }

// passesWindow: the account's lock keeps others from taking the same room.
func (p Publication) passesWindow() bool { return len(p.Parts) > 0 && p.Next.Window > 0 }

func (s *Store) publishBatch(ctx context.Context, l locking, ps []Publication) ([]Published, error) {
	ids := make([]string, len(ps))
	for i, p := range ps {
		ids[i] = p.Claim.Step
	}
	var got []Published
	err := s.update(ctx, "publish", locks{level: l, steps: ids}, func(u *unit) error {
		got = make([]Published, len(ps))
		for i, p := range ps {
			before := len(u.outbox)
			var err error
			if got[i], err = u.publish(p); err != nil {
				return err
			}
			got[i].Outgoing = u.outgoing(before)
		}
		return nil
	})
	return got, err
}

func (u *unit) publish(p Publication) (Published, error) {
	s := u.steps[p.Claim.Step]
	if refusal := u.stale(s, p.Claim); refusal != nil {
		return Published{Settle: *refusal}, nil
	}
	if s.LeaseEnd <= u.now {
		u.release(s, outcome.KindLost, ReasonLapsed, p.Timings)
		u.emit(s)
		return Published{Settle: Settle{Do: Delete, Reason: ReasonLapsed}}, nil
	}
	u.closeAttempt(s, string(outcome.KindDone), "", true, p.Timings)
	u.set(s, stepDone)
	out := string(p.Output)
	s.Output = &out
	s.job.addGaps(p.Gaps)
	if s.IsFirst == 1 {
		if err := u.supersedeOlder(s); err != nil {
			return Published{}, err
		}
	}
	if err := u.follow(s, p); err != nil {
		return Published{}, err
	}
	return Published{Accepted: true, Settle: Settle{Do: Delete, Reason: stepDone}}, nil
}

// stale is the guard: nil when the claim still owns its step.
func (u *unit) stale(s *stepRow, c Claim) *Settle {
	switch {
	case s == nil:
		return &Settle{Do: Quarantine, Reason: ReasonUnknownStep}
	case s.ended():
		return &Settle{Do: Delete, Reason: s.State}
	case s.State != stepRunning || s.Token != c.Token:
		return &Settle{Do: Leave, Reason: ReasonStaleOwner}
	case s.target.Ingested > s.job.Version:
		u.supersede(s)
		return &Settle{Do: Delete, Reason: stepSuperseded}
	}
	return nil
}

// supersede ends a step that outlived its job: a part that went on after a sibling had died.
func (u *unit) supersede(s *stepRow) {
	if s.State == stepRunning {
		u.closeAttempt(s, outcomeReplaced, stepSuperseded, false, Timings{})
	}
	u.set(s, stepSuperseded)
}

// follow moves the job on after a step is done.
func (u *unit) follow(s *stepRow, p Publication) error {
	switch {
	case p.FanOut && len(p.Parts) > 0:
		return u.fanOut(s, p)
	case p.FanOut:
		return u.join(s, *p.Join, nil, p.TraceParent)
	case s.Parent != "":
		return u.partDone(s, p)
	case p.Next != nil:
		u.addStep(s.job, *p.Next, p.Output, p.TraceParent, plain())
		return nil
	}
	return u.complete(s, p)
}

// fanOut makes the parts. Those for which the tenant has no room yet are held.
func (u *unit) fanOut(s *stepRow, p Publication) error {
	room, err := u.roomForParts(s.Tenant, *p.Next)
	if err != nil {
		return err
	}
	s.PartsLeft = int64(len(p.Parts))
	for i, part := range p.Parts {
		shape := stepRow{Part: int64(i), Parent: s.ID}
		if int64(i) >= room {
			shape.State = stepHeld
		}
		u.addStep(s.job, *p.Next, part, p.TraceParent, shape)
	}
	return nil
}

// partDone counts a part and starts the step that collects them when it was the last. The job's row is locked, so
// two last parts come one after the other.
func (u *unit) partDone(s *stepRow, p Publication) error {
	if err := u.load(lockAll, []string{s.Parent}); err != nil {
		return err
	}
	parent, ok := u.steps[s.Parent]
	if !ok {
		return fmt.Errorf("step %s has no parent %s", s.ID, s.Parent)
	}
	parent.PartsLeft--
	parent.dirty = true
	if parent.PartsLeft > 0 {
		return nil
	}
	if p.Next == nil {
		return u.complete(s, p)
	}
	parts, err := u.partOutputs(parent)
	if err != nil {
		return err
	}
	return u.join(parent, *p.Next, parts, p.TraceParent)
}

// partOutputs reads the outputs in the order of the parts; those of this transaction are not written yet.
func (u *unit) partOutputs(parent *stepRow) ([]json.RawMessage, error) {
	parts := []json.RawMessage{}
	err := u.tx.Query(u.ctx, q("part_outputs"), func(scan func(...any) error) error {
		var id, output string
		if err := scan(&id, &output); err != nil {
			return err
		}
		if s, ok := u.steps[id]; ok && s.Output != nil {
			output = *s.Output
		}
		parts = append(parts, raw(output))
		return nil
	}, parent.ID)
	if err != nil {
		return nil, fmt.Errorf("read outputs of parts: %w", err)
	}
	return parts, nil
}

// join adds the step that collects a fan-out; the unique key of a step keeps it single.
func (u *unit) join(parent *stepRow, r Route, parts []json.RawMessage, trace string) error {
	head := ""
	if parent.Output != nil {
		head = *parent.Output
	} else if err := u.tx.One(u.ctx, q("output_of_step"), []any{parent.ID}, &head); err != nil {
		return fmt.Errorf("read output of step %s: %w", parent.ID, err)
	}
	if parts == nil {
		parts = []json.RawMessage{}
	}
	input, err := json.Marshal(struct {
		V     int               `json:"v"`
		Head  json.RawMessage   `json:"head"`
		Parts []json.RawMessage `json:"parts"`
	}{1, raw(head), parts})
	if err != nil {
		return fmt.Errorf("join parts: %w", err)
	}
	u.addStep(parent.job, r, input, trace, plain())
	return nil
}

// raw keeps an absent output readable.
func raw(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(s)
}

// complete ends the job and makes its result the target's current one, unless a later version already is.
func (u *unit) complete(s *stepRow, p Publication) error {
	state := jobCompleted
	if len(s.job.gaps()) > 0 {
		state = jobWithGaps
	}
	if p.Result != nil {
		result := sqldb.Text(p.Result)
		s.job.Result = &result
	}
	if s.job.Version > s.target.Current {
		s.target.Current, s.target.CurJob, s.target.dirty = s.job.Version, s.job.ID, true
	}
	u.endJob(s.job, state, "", "")
	return nil
}

// supersedeOlder makes this version the one that counts: its first step has succeeded, so its input is good.
func (u *unit) supersedeOlder(s *stepRow) error {
	if s.job.Version <= s.target.Ingested {
		return nil
	}
	s.target.Ingested, s.target.dirty = s.job.Version, true
	older, err := u.list(q("older_jobs"), s.target.ID, s.job.Version)
	if err != nil {
		return fmt.Errorf("list older versions: %w", err)
	}
	if len(older) == 0 {
		return nil
	}
	if _, err := u.loadJobs(older); err != nil {
		return err
	}
	for _, id := range older {
		err := u.stopJob(u.jobs[id], jobSuperseded, stepSuperseded, jobSuperseded, "A newer version of this target has taken over.")
		if err != nil {
			return err
		}
	}
	return nil
}
