package infra

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

//go:embed text
var texts embed.FS

// page is what a runbook's frame is filled with.
type page struct {
	Name, Summary, Action, Env string
	Cluster, Parameter         string
	Severity                   stage.Severity
	DuringPause                bool
	Rules                      [][3]string // stage, rule, queue
	Terms                      []string    // of a composite
	Body                       string
}

// runbooks are one page for each alarm, the same for all stages: what to do first, with the very commands, and then what
// the alarm means and when it rings.
func (p plan) runbooks() ([]File, error) {
	var files []File
	for _, pg := range p.pages() {
		body, err := texts.ReadFile("text/" + pg.Name + ".md")
		if err != nil {
			return nil, fmt.Errorf("runbook of %s: %w", pg.Name, err)
		}
		if pg.Body, err = fill(pg.Name, string(body), pg); err != nil {
			return nil, err
		}
		frame, err := texts.ReadFile("text/frame.md")
		if err != nil {
			return nil, err
		}
		text, err := fill("frame", string(frame), pg)
		if err != nil {
			return nil, err
		}
		files = append(files, File{"runbooks/" + pg.Name + ".md", []byte(mark(text))})
	}
	return files, nil
}

// mark puts the line that says where a page comes from at its top.
func mark(text string) string { return "<!-- " + generated + " -->\n" + text }

func fill(name, text string, data any) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("read text %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return "", fmt.Errorf("fill text %s: %w", name, err)
	}
	return out.String(), nil
}

func (p plan) pages() []page {
	var pages []page
	add := func(pg page) {
		pg.Env, pg.Cluster, pg.Parameter = p.env, p.cluster(), control.ParameterName(p.env)
		if i := slices.IndexFunc(pages, func(other page) bool { return other.Name == pg.Name }); i >= 0 {
			pages[i].Rules = append(pages[i].Rules, pg.Rules...)
			return
		}
		pages = append(pages, pg)
	}
	rule := func(name, queue string, a stage.Alarm) {
		add(page{Name: a.Name, Summary: a.Summary, Action: a.Action, Severity: a.Severity, DuringPause: a.DuringPause, Rules: [][3]string{{name, a.String(), queue}}})
	}
	composite := func(c stage.Composite) {
		add(page{Name: c.Name, Summary: c.Summary, Action: c.Action, Severity: c.Severity, Terms: terms(c)})
	}
	for _, s := range p.stages {
		for _, a := range append(s.Alarms(), s.Paused()) {
			rule(s.Name, s.QueueName(p.env), a)
		}
		composite(s.Broken())
		composite(s.Attention())
	}
	for _, a := range stage.ServerAlarms() {
		rule(server, "-", a)
	}
	composite(stage.ServerBroken())
	return pages
}

// terms says a composite in words.
func terms(c stage.Composite) []string {
	var all []string
	for _, t := range c.Any {
		all = append(all, strings.Join(t, " and "))
	}
	return all
}
