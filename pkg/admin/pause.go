package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// All in place of a stage's name means every stage.
const All = "all"

// ErrPast means that a pause would end before it begins.
var ErrPast = errors.New("the pause would be over already")

// Pause is a pause in force.
type Pause struct {
	job.PauseEntry
	ResumeBy time.Time `json:"resume_by"`         // a longer pause comes near the queue's retention
	Warning  string    `json:"warning,omitempty"` // that it does
}

// Pause stops a stage, or all, from taking new work; running work goes on. It takes the place of an earlier pause of the same
// name. Workers learn of it at their next look, within half a minute. A stage that does not exist is a *StageError; ErrPast
// when until is not in the future.
func (o *Operator) Pause(ctx context.Context, p job.PauseEntry) (Pause, error) {
	if _, err := o.stages(p.Stage); err != nil {
		return Pause{}, err
	}
	if !p.Until.IsZero() && !p.Until.After(time.Now()) {
		return Pause{}, ErrPast
	}
	if err := o.Record.Pause(ctx, p); err != nil {
		return Pause{}, err
	}
	p.At = time.Now().UTC()
	return o.timed(p), nil
}

// Resume lifts the pause of a stage, or that of all, and returns the pauses that still hold the stage. It says false when
// there was none to lift.
func (o *Operator) Resume(ctx context.Context, name, who string) (lifted bool, still []Pause, err error) {
	if _, err := o.stages(name); err != nil {
		return false, nil, err
	}
	all, err := o.Pauses(ctx)
	if err != nil {
		return false, nil, err
	}
	for _, p := range all {
		switch {
		case p.Stage == name:
			lifted = true
		case p.Stage == All || name == All:
			still = append(still, p)
		}
	}
	if lifted {
		err = o.Record.Resume(ctx, name, who)
	}
	return lifted, still, err
}

// Pauses lists the pauses in force.
func (o *Operator) Pauses(ctx context.Context) ([]Pause, error) {
	entries, err := o.Record.Pauses(ctx)
	all := []Pause{}
	for _, p := range entries {
		all = append(all, o.timed(p))
	}
	return all, err
}

// timed adds when the pause comes near the retention of a queue: at three quarters, when workers warn of it too.
func (o *Operator) timed(p job.PauseEntry) Pause {
	stages, err := o.stages(p.Stage)
	if err != nil { // of an earlier manifest
		return Pause{PauseEntry: p}
	}
	retention := stages[0].Durations.Retention
	for _, s := range stages {
		retention = min(retention, s.Durations.Retention)
	}
	timed := Pause{PauseEntry: p, ResumeBy: p.At.Add(retention * 3 / 4)}
	if p.Until.After(timed.ResumeBy) || p.Until.IsZero() && time.Now().After(timed.ResumeBy) {
		timed.Warning = fmt.Sprintf("The pause nears the retention of the queue, %v: messages that wait longer are lost and have to be made anew.", retention)
	}
	return timed
}
