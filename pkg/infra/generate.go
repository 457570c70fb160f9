package infra

import (
	"fmt"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Templates returns the stacks of an environment in the order in which they are made: shared, queues, one for each stage in
// the order of the work, the migration, server. It fails as Pipeline.Settings does.
func Templates(pipeline stage.Pipeline, env string) ([]Template, error) {
	stages, err := pipeline.Ordered()
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	p := plan{env: env, stages: stages, all: pipeline}
	makers := []func() (Template, error){p.shared, p.queues}
	for _, s := range stages {
		makers = append(makers, func() (Template, error) { return p.stageStack(s) })
	}
	var all []Template
	for _, write := range append(makers, p.migrate, p.server) {
		t, err := write()
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// Generate returns every file of an environment, in a fixed order.
func Generate(pipeline stage.Pipeline, env string) ([]File, error) {
	templates, err := Templates(pipeline, env)
	if err != nil {
		return nil, err
	}
	if err := Check(templates, pipeline, env); err != nil {
		return nil, fmt.Errorf("check the templates: %w", err)
	}
	stages, err := pipeline.Ordered()
	if err != nil {
		return nil, err
	}
	p := plan{env: env, stages: stages, all: pipeline}
	var files []File
	for _, t := range templates {
		text, err := t.YAML()
		if err != nil {
			return nil, err
		}
		files = append(files, File{t.Name + ".yaml", text})
	}
	for _, write := range []func() ([]File, error){p.rules, p.runbooks, p.readme, p.script} {
		more, err := write()
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

func endpointID(service string) string {
	var id strings.Builder
	for part := range strings.SplitSeq(service, ".") {
		id.WriteString(upperFirst(part))
	}
	return id.String()
}
