// Package doctor compares what lives with what the manifest says: an AWS account with the templates that package infra
// writes, or a fleet on this machine with the manifest itself.
//
// Promised: it never writes, which the narrow interfaces of Account show; every number comes from the manifest; what it
// could not see it says, so that a clean report means that everything was seen. A report is the same for the same account,
// in the order in which people work through it.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Finding is one difference.
type Finding struct {
	Part     Part   `json:"part"`
	Resource string `json:"resource"`
	Field    string `json:"field"` // empty when the resource itself is missing
	Expected string `json:"expected"`
	Found    string `json:"found"`
	Why      string `json:"why"`  // it matters
	Mend     string `json:"mend"` // the command that mends it

	stack string // of which a missing resource is part
}

// Unseen is what could not be looked at.
type Unseen struct {
	Part     Part   `json:"part"`
	Resource string `json:"resource"`
	Why      string `json:"why"`
}

// Part is a kind of thing that is looked at.
type Part string

// The parts, in the order in which they are looked at.
const (
	PartAccount     Part = "account"
	PartClock       Part = "clock"
	PartQueues      Part = "queues"
	PartAlarms      Part = "alarms"
	PartServices    Part = "services"
	PartScaling     Part = "scaling"
	PartSwitch      Part = "switch"
	PartBucket      Part = "bucket"
	PartLogs        Part = "logs"
	PartPermissions Part = "permissions"
	PartTags        Part = "tags"
	PartMetrics     Part = "metrics"
	PartRecord      Part = "record"
	PartMachine     Part = "machine" // of a local fleet alone
	PartWorkers     Part = "workers" // of a local fleet alone
)

// AccountParts are the parts of an account that can be left out, in their order.
func AccountParts() []Part {
	return []Part{PartClock, PartQueues, PartAlarms, PartServices, PartScaling, PartSwitch, PartBucket, PartLogs, PartPermissions, PartTags, PartMetrics, PartRecord}
}

// Report is what a look has found.
type Report struct {
	Environment string    `json:"environment"`
	Account     string    `json:"account,omitempty"`
	Region      string    `json:"region,omitempty"`
	Findings    []Finding `json:"findings"`
	Unseen      []Unseen  `json:"unseen"`
	Skipped     []Part    `json:"skipped"` // left out as asked
	Looked      int       `json:"looked"`  // number of resources that were compared
}

// Errors of a report that is not clean; see Report.Err.
var (
	// ErrDrift means that something differs.
	ErrDrift = errors.New("what lives differs from the manifest")
	// ErrUnseen means that nothing differs as far as could be seen.
	ErrUnseen = errors.New("not everything could be looked at")
)

// Err is nil when everything that was asked for was seen and agrees; it matches ErrDrift when something differs, whatever
// could not be seen, because that is certain and waits for somebody; and ErrUnseen otherwise.
func (r Report) Err() error {
	switch {
	case len(r.Findings) > 0:
		return fmt.Errorf("%w (findings: %d)", ErrDrift, len(r.Findings))
	case len(r.Unseen) > 0:
		return fmt.Errorf("%w (unseen: %d)", ErrUnseen, len(r.Unseen))
	}
	return nil
}

// ClockBound is how far this machine's clock may be from AWS's. AWS refuses requests that are signed more than five
// minutes off (AWS General Reference, "Signature Version 4"); people compare logs long before that.
const ClockBound = 30 * time.Second

// Config says what is looked at and compared with.
type Config struct {
	Pipeline stage.Pipeline
	Env      string // name of the environment
	Region   string
	Account  Account
	// Schema reports whether the record is up to date; nil: no record was given, so it counts as unseen.
	Schema func(context.Context) error
	Skip   []Part
	// Progress is told of each part before it is looked at; nil: nobody is.
	Progress func(Part)
}

// look is one look at an account.
type look struct {
	Config
	place     place
	templates []wantedStack
	report    Report
	services  map[string]*liveService // by name, once they were looked at
	skew      time.Duration           // of the local clock
	clockSeen bool
	gone      map[string][]string // missing resources, by stack
	there     map[string]bool     // stacks of which something is there
}

// Look compares an account with the manifest. It fails only when the manifest does not validate; what cannot be seen is in
// the report.
func Look(ctx context.Context, c Config) (Report, error) {
	templates, err := infra.Templates(c.Pipeline, c.Env)
	if err != nil {
		return Report{}, err
	}
	l := &look{Config: c, services: map[string]*liveService{}, gone: map[string][]string{}, there: map[string]bool{}}
	l.report = Report{Environment: c.Env, Region: c.Region, Findings: []Finding{}, Unseen: []Unseen{}, Skipped: []Part{}}
	if !l.identify(ctx) {
		return l.report, nil
	}
	for _, t := range templates {
		l.templates = append(l.templates, wantedOf(t, l.place, c.Env))
	}
	for _, p := range l.parts() {
		if slices.Contains(c.Skip, p.name) {
			l.report.Skipped = append(l.report.Skipped, p.name)
			continue
		}
		if c.Progress != nil {
			c.Progress(p.name)
		}
		p.look(ctx)
	}
	l.gather()
	order := append([]Part{PartAccount}, AccountParts()...)
	slices.SortStableFunc(l.report.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Part), slices.Index(order, b.Part))
	})
	return l.report, nil
}

type part struct {
	name Part
	look func(context.Context)
}

func (l *look) parts() []part {
	return []part{
		{PartClock, l.clock}, {PartQueues, l.queues}, {PartAlarms, l.alarms}, {PartServices, l.tasks}, {PartScaling, l.scaling},
		{PartSwitch, l.killSwitch}, {PartBucket, l.bucket}, {PartLogs, l.logs}, {PartPermissions, l.permissions},
		{PartTags, l.tags}, {PartMetrics, l.metrics}, {PartRecord, l.record},
	}
}

// resources are the wanted resources of some types, in the order of the templates.
func (l *look) resources(types ...string) []wanted {
	var all []wanted
	for _, t := range l.templates {
		for _, w := range t.resources {
			if slices.Contains(types, w.kind) {
				all = append(all, w)
			}
		}
	}
	return all
}

func (l *look) unseen(p Part, resource string, err error) {
	l.report.Unseen = append(l.report.Unseen, Unseen{p, resource, sentence(err)})
}

func (l *look) find(f Finding) { l.report.Findings = append(l.report.Findings, f) }

// missing reports a resource that is not there.
func (l *look) missing(p Part, w wanted, name, mend string) {
	l.gone[w.stack] = append(l.gone[w.stack], name)
	l.find(Finding{Part: p, Resource: name, Expected: "exists", Found: "missing", Why: reason(w.kind, ""), Mend: mend, stack: w.stack})
}

// gather makes one finding of a stack of which nothing is there: it was never deployed, and making it mends all.
func (l *look) gather() {
	told := map[string]bool{}
	l.report.Findings = slices.DeleteFunc(l.report.Findings, func(f Finding) bool {
		if f.stack == "" || l.there[f.stack] {
			return false
		}
		again := told[f.stack]
		told[f.stack] = true
		return again
	})
	for i, f := range l.report.Findings {
		if f.stack != "" && !l.there[f.stack] {
			l.report.Findings[i] = Finding{Part: f.Part, Resource: "stack " + stackName(l.Env, f.stack), Expected: "exists",
				Found: fmt.Sprintf("none of its resources (%s, ...)", l.gone[f.stack][0]), Why: "nothing of it was deployed", Mend: l.create(f.stack)}
		}
	}
}

// compare reports every field of a resource that differs.
func (l *look) compare(p Part, w wanted, name string, found any, mend func(difference) string) {
	l.report.Looked++
	l.there[w.stack] = true
	for _, d := range differences(w, found) {
		l.find(Finding{Part: p, Resource: name, Field: d.path, Expected: d.want, Found: d.got, Why: reason(w.kind, d.path), Mend: mend(d)})
	}
}

// record looks at the schema.
func (l *look) record(ctx context.Context) {
	if l.Schema == nil {
		l.unseen(PartRecord, "schema", errors.New("no record was given: say --database, or --skip record where it cannot be reached"))
		return
	}
	l.report.Looked++
	if err := l.Schema(ctx); errors.Is(err, ErrSchemaBehind) {
		l.find(schemaBehind("fleet migrate --database \"$" + databaseVariable + "\""))
	} else if err != nil {
		l.unseen(PartRecord, "schema", err)
	}
}

// ErrSchemaBehind is what Config.Schema returns when migrations are missing.
var ErrSchemaBehind = errors.New("migrations are missing")

const databaseVariable = "FLEET_DATABASE_URL"

func schemaBehind(mend string) Finding {
	return Finding{Part: PartRecord, Resource: "record", Field: "schema", Expected: "up to date", Found: "migrations are missing",
		Why: "server and workers of this release refuse to start on an older schema", Mend: mend}
}
