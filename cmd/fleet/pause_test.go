package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestAPauseSaysWhoWhyAndUntilWhen(t *testing.T) {
	s := serve(t)
	if text := s.fleet(exitDone, "pause"); text != "Nothing is paused.\n" {
		t.Errorf("%q", text)
	}
	j := s.submit("talk.mp4")
	if _, stderr := s.says(exitDone, "pause ingest --reason down"); !strings.Contains(stderr, "fleet resume ingest") {
		t.Errorf("an open pause says nothing of its end: %s", stderr)
	}
	s.fleet(exitDone, "pause all --until 2h --reason", "moving the database")
	text := s.fleet(exitDone, "pause")
	for _, word := range []string{"ingest", "down", "all", "moving the database", person()} {
		if !strings.Contains(text, word) {
			t.Errorf("the list does not say %q:\n%s", word, text)
		}
	}
	if got := as[job.Job](s, "job", j.ID); got.State != job.Paused {
		t.Errorf("the job is %s", got.State)
	}
	for _, st := range as[[]admin.Stage](s, "stages") {
		if !st.Paused {
			t.Errorf("%s is not paused", st.Name)
		}
	}
	if _, stderr := s.says(exitDone, "resume ingest"); !strings.Contains(stderr, "pause of all") {
		t.Errorf("what goes on to pause the stage is not said: %s", stderr)
	}
	if got := as[api.Resumed](s, "resume all"); !got.Was || len(got.Still) != 0 {
		t.Errorf("resumed %+v", got)
	}
	if text := s.fleet(exitDone, "resume all"); text != "all was not paused\n" {
		t.Errorf("%q", text)
	}
	if got := as[job.Job](s, "job", j.ID); got.State != job.Queued {
		t.Errorf("the job is %s", got.State)
	}
}

func TestAPauseThatNearsTheRetentionWarns(t *testing.T) {
	s := serve(t)
	for until, warns := range map[string]bool{"71h": false, "73h": true, time.Now().Add(90 * time.Hour).Format(time.RFC3339): true} {
		p := as[admin.Pause](s, "pause compile --reason r --until", until)
		if (p.Warning != "") != warns {
			t.Errorf("until %s: warning %q", until, p.Warning)
		}
	}
}

func TestPausesThatCannotBeAreRefused(t *testing.T) {
	s := serve(t)
	for line, want := range map[string]string{
		"pause compil --reason r":                               "compile",
		"pause compile":                                         "--reason",
		"pause compile --reason r --until soon":                 "2h",
		"pause compile --reason r --until -1h":                  "future",
		"pause compile --reason r --until 2001-01-01T00:00:00Z": "future",
		"pause --reason r":                                      "stage",
		"resume compil":                                         "compile",
	} {
		if _, stderr := s.says(exitUsage, line); !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %s, want one line that says %s", line, stderr, want)
		}
	}
}
