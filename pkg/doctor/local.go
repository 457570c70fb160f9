package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// LocalEnv is the name of a local fleet's environment.
const LocalEnv = "local"

// Tool is a program that stages run.
type Tool struct {
	Name string
	// Version are the arguments with which it says its version and succeeds; none: it is only looked for.
	Version []string
}

// Running is what a fleet says of a stage.
type Running struct {
	Stage   string
	Workers int
	Oldest  time.Duration // age of its oldest work that no worker has begun
}

// Machine is a fleet on this machine. A nil field could not be had, and counts as unseen.
type Machine struct {
	Pipeline stage.Pipeline // with the durations that the fleet was started with
	State    string         // directory
	Tools    []Tool
	Queues   Queues
	Free     func(dir string) (int64, error) // bytes; nil: as the system says
	// Stages asks the fleet for its stages, and for the time that its answer had.
	Stages func(context.Context) ([]Running, time.Time, error)
	// Schema reports whether the record is up to date, Dead how many of its steps wait for a person.
	Schema func(context.Context) error
	Dead   func(context.Context) (int, error)
	// Progress is told of each part before it is looked at; nil: nobody is.
	Progress func(Part)
}

// errNotUp is why parts of a local fleet cannot be seen.
var errNotUp = errors.New("no fleet runs with this state directory: start it with fleet up, or name it with --state")

// ErrNoAnswer is what Machine.Stages returns when nobody answers, rather than somebody with an error.
var ErrNoAnswer = errors.New("the fleet does not answer: start it with fleet up, or name it with --addr")

// LookLocal compares a local fleet with the manifest. It fails only when the manifest does not validate.
func LookLocal(ctx context.Context, m Machine) (Report, error) {
	templates, err := infra.Templates(m.Pipeline, LocalEnv)
	if err != nil {
		return Report{}, err
	}
	l := &look{Config: Config{Pipeline: m.Pipeline, Env: LocalEnv, Schema: m.Schema, Progress: m.Progress}, gone: map[string][]string{}, there: map[string]bool{}}
	l.report = Report{Environment: LocalEnv, Findings: []Finding{}, Unseen: []Unseen{}, Skipped: []Part{}}
	l.place = place{partition: "aws", account: localsqs.DefaultAccount, region: localsqs.DefaultRegion}
	for _, t := range templates {
		l.templates = append(l.templates, wantedOf(t, l.place, LocalEnv))
	}
	for _, p := range []part{
		{PartMachine, func(ctx context.Context) { l.machine(ctx, m) }},
		{PartQueues, func(ctx context.Context) { l.localQueues(ctx, m.Queues) }},
		{PartWorkers, func(ctx context.Context) { l.workers(ctx, m) }},
		{PartRecord, func(ctx context.Context) { l.localRecord(ctx, m) }},
	} {
		if m.Progress != nil {
			m.Progress(p.name)
		}
		p.look(ctx)
	}
	return l.report, nil
}

// machine looks at tools, directory and disk.
func (l *look) machine(ctx context.Context, m Machine) {
	for _, t := range m.Tools {
		l.report.Looked++
		if err := t.run(ctx); err != nil {
			l.find(Finding{Part: PartMachine, Resource: "program " + t.Name, Expected: "runs", Found: oneLine(err.Error()),
				Why: "stages run it: jobs fail or have gaps without it", Mend: "make setup"})
		}
	}
	info, err := os.Stat(m.State)
	if err != nil {
		l.unseen(PartMachine, "state directory "+m.State, errNotUp)
		return
	}
	l.report.Looked += 2
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		l.find(Finding{Part: PartMachine, Resource: "state directory " + m.State, Field: "mode", Expected: "written by its owner alone", Found: mode.String(),
			Why: "others could change record and recordings", Mend: "chmod go-w " + quote(m.State)})
	}
	l.folders(m)
	measure := m.Free
	if measure == nil {
		measure = freeSpace
	}
	free, err := measure(m.State)
	if err != nil {
		l.unseen(PartMachine, "disk of "+m.State, err)
		return
	}
	if need := l.largest(); free < need {
		l.find(Finding{Part: PartMachine, Resource: "disk of " + m.State, Field: "free space", Expected: fmt.Sprintf("%d MiB or more", need>>20),
			Found: fmt.Sprintf("%d MiB", free>>20), Why: "one recording of the largest size that is taken would fill it", Mend: "fleet gc"})
	}
}

// held are the folders that a fleet has in its state directory, and why it cannot do without them. It goes on with what it has
// open when one is deleted, so that nobody notices before the next start.
var held = []struct{ name, why string }{
	{"objects", "what was in it is lost, and jobs that need it fail"},
	{"queues", "messages are kept in memory alone, and gone at the next start; the record then sends its own again"},
	{"logs", "a worker that dies cannot start again"},
	{"tmp", "a worker that dies cannot start again"},
}

// folders looks for those of a fleet that runs; one that does not makes them at its start.
func (l *look) folders(m Machine) {
	if m.Queues == nil {
		return
	}
	for _, f := range held {
		l.report.Looked++
		path := filepath.Join(m.State, f.name)
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			l.find(Finding{Part: PartMachine, Resource: "folder " + path, Expected: "exists", Found: "missing", Why: f.why,
				Mend: "fleet up # after the one that runs was ended: it makes its folders"})
		}
	}
}

// freeSpace is what is free to a user without privileges.
func freeSpace(dir string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("measure the disk: %w", err)
	}
	return int64(disk.Bavail) * disk.Bsize, nil
}

// largest is the largest input of any stage.
func (l *look) largest() int64 {
	var n int64
	for _, s := range l.Pipeline {
		n = max(n, s.WithDefaults().Profile.MaxInput)
	}
	return n
}

// toolTimeout is how long a program may take to say its version.
const toolTimeout = 10 * time.Second

func (t Tool) run(ctx context.Context) error {
	path, err := exec.LookPath(t.Name)
	if err != nil {
		return errors.New("not installed")
	}
	if len(t.Version) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, t.Version...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w %s", t.Name, strings.Join(t.Version, " "), err, shorten(oneLine(string(out))))
	}
	return nil
}

// localAttributes are those that a local fleet sets; it has no need of the others.
var localAttributes = []string{"QueueName", "FifoQueue", "VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy"}

func (l *look) localQueues(ctx context.Context, api Queues) {
	if api == nil {
		l.unseen(PartQueues, "all queues", errNotUp)
		return
	}
	urls, err := queueURLs(ctx, api, stackName(LocalEnv, ""))
	if errors.As(err, new(*net.OpError)) { // the address is that of one that was killed
		err = errNotUp
	}
	if err != nil {
		l.unseen(PartQueues, "all queues", err)
		return
	}
	const mend = "fleet up # a minute after the one that runs was ended: it makes queues that are missing and sets them all"
	for _, w := range l.resources("AWS::SQS::Queue") {
		for name := range w.properties {
			if !slices.Contains(localAttributes, name) {
				delete(w.properties, name)
			}
		}
		name := w.text("QueueName")
		if urls[name] == "" {
			l.missing(PartQueues, w, name, mend)
			continue
		}
		found, err := queueAttributes(ctx, api, urls[name])
		if err != nil {
			l.unseen(PartQueues, name, err)
			continue
		}
		l.compare(PartQueues, w, name, found, func(difference) string { return mend })
	}
}

// workers looks at who works, how long work waits, and whether the fleet's clock is this machine's.
func (l *look) workers(ctx context.Context, m Machine) {
	before := time.Now()
	running, at, err := m.Stages(ctx)
	if err != nil && !errors.Is(err, ErrNoAnswer) {
		err = fmt.Errorf("the fleet answers and cannot say (%w); the last lines of %s say why", err, filepath.Join(m.State, "logs", "fleet.log"))
	}
	if err != nil {
		l.unseen(PartWorkers, "all workers", err)
		return
	}
	l.skew, l.clockSeen = skew(before, time.Now(), at), !at.IsZero()
	l.clock(ctx)
	for _, s := range running {
		l.report.Looked++
		want, known := m.Pipeline.Stage(s.Stage)
		if known && s.Workers == 0 {
			l.find(Finding{Part: PartWorkers, Resource: "stage " + s.Stage, Field: "workers", Expected: "1 or more that were heard of lately", Found: "0",
				Why: "its work waits", Mend: "tail -n 50 " + quote(m.State) + "/logs/" + s.Stage + "-*.log"})
		}
		if known && s.Oldest > want.Profile.Objective {
			l.find(Finding{Part: PartWorkers, Resource: "stage " + s.Stage, Field: "oldest work", Expected: want.Profile.Objective.String() + " or less",
				Found: s.Oldest.Round(time.Second).String(), Why: "people wait longer than the stage promises", Mend: "fleet stages"})
		}
	}
}

func (l *look) localRecord(ctx context.Context, m Machine) {
	if m.Schema == nil {
		l.unseen(PartRecord, "schema", errNotUp)
		return
	}
	l.report.Looked++
	if err := m.Schema(ctx); errors.Is(err, ErrSchemaBehind) {
		l.find(schemaBehind("fleet up # started again, it migrates"))
		return
	} else if err != nil {
		l.unseen(PartRecord, "schema", err)
		return
	}
	dead, err := m.Dead(ctx)
	if err != nil {
		l.unseen(PartRecord, "dead steps", err)
		return
	}
	l.report.Looked++
	if dead > 0 {
		l.find(Finding{Part: PartRecord, Resource: "record", Field: "dead steps", Expected: "0", Found: fmt.Sprint(dead),
			Why: "their jobs have failed and wait for a person", Mend: "fleet dlq ls"})
	}
}
