package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestATerminalIsRedrawnInPlaceWithoutWrapping(t *testing.T) {
	var out bytes.Buffer
	d := &display{out: &out, width: 40}
	d.job(job.Job{Steps: []job.Step{{Stage: "ingest", State: job.Running}}})
	d.job(job.Job{Steps: []job.Step{{Stage: "ingest", State: job.Failed, Reason: &job.Reason{Sentence: strings.Repeat("long ", 20)}}, {Stage: "publish", State: job.Queued}}})
	d.job(job.Job{Steps: []job.Step{{Stage: "ingest", State: job.Running}, {Stage: "publish", State: job.Queued}}})
	text := out.String()
	if ups := strings.Count(text, "\x1b[1A") + strings.Count(text, "\x1b[2A"); ups != 2 {
		t.Errorf("%d moves up, want one per redraw: %q", ups, text)
	}
	for line := range strings.Lines(text) {
		_, visible, _ := strings.Cut(line, "\x1b[2K")
		if len(strings.TrimSuffix(visible, "\n")) >= d.width {
			t.Errorf("a line of %d columns on a terminal of %d", len(visible), d.width)
		}
	}
}

func TestTheRunningTimeGoesOnBetweenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &display{out: &out, width: 80}
		ctx, cancel := context.WithCancel(t.Context())
		go d.tick(ctx)
		d.job(job.Job{Steps: []job.Step{{Stage: "transcribe", State: job.Running, History: []job.Attempt{{ClaimedAt: time.Now()}}}}})
		settle(3 * time.Second)
		cancel()
		synctest.Wait()
		if text := out.String(); !strings.HasSuffix(text, "transcribe   running                3s\n") {
			t.Errorf("%q", text)
		}
	})
}

// settle lets d pass in a bubble and waits until all is quiet.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestPartsOfAFanOutShareARow(t *testing.T) {
	step := func(states ...job.State) (steps []job.Step) {
		for _, s := range states {
			steps = append(steps, job.Step{Stage: "compile", State: s, CreatedAt: *at(0), Reason: &job.Reason{Sentence: "Why."}})
		}
		return steps
	}
	for want, steps := range map[string][]job.Step{
		"compile      1 of 3 done":                    step(job.Completed, job.Running, job.Queued),
		"compile      completed              3 parts": step(job.Completed, job.Completed, job.Completed),
		"compile      failed                 Why.":    step(job.Completed, job.Failed, job.Running),
	} {
		list := rows(job.Job{Steps: steps}, *at(0))
		if len(list) != 1 || list[0].String() != want {
			t.Errorf("rows = %q, want %q", list, want)
		}
	}
}

func TestAFailedStepNamesItsLastReason(t *testing.T) {
	s := job.Step{State: job.Failed, Attempts: 3, Reason: &job.Reason{Sentence: "It failed."}, History: []job.Attempt{{Reason: "failed"}, {Reason: "ffmpeg_missing"}}}
	if got := detail(s, *at(0)); got != "3 attempts, It failed., last: ffmpeg_missing" {
		t.Errorf("detail = %q", got)
	}
}

func TestAnUnknownTotalIsNotInvented(t *testing.T) {
	s := job.Step{State: job.Running, Progress: &job.Progress{Unit: "seconds", Done: 12, Total: -1}}
	if got := detail(s, *at(0)); got != "12 seconds" {
		t.Errorf("detail = %q", got)
	}
	s.Progress.Total = 60
	if got := detail(s, *at(0)); got != "12 of 60 seconds" {
		t.Errorf("detail = %q", got)
	}
}
