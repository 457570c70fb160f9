package infra

import (
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// The bounds of a template given as text (AWS CloudFormation User Guide, "CloudFormation quotas").
const (
	MaxBytes     = 51200
	MaxResources = 500
)

// Template is one stack.
type Template struct {
	// Name is that of the stack after "stagefleet-ENV-", and of the file without ".yaml".
	Name        string
	Description string
	Parameters  Map
	Conditions  Map
	Resources   []Resource
	Outputs     Map
}

// Resource is one resource of a stack.
type Resource struct {
	ID, Type, Condition string
	// Keep retains the resource when the stack lets go of it; Snapshot keeps a snapshot of it.
	Keep, Snapshot bool
	DependsOn      string
	Properties     Map
}

// Resource returns the resource of that logical ID, and whether there is one.
func (t Template) Resource(id string) (Resource, bool) {
	for _, r := range t.Resources {
		if r.ID == id {
			return r, true
		}
	}
	return Resource{}, false
}

// File is one generated file.
type File struct {
	Name string // with slashes, relative to the folder
	Text []byte
}

// YAML returns the template as CloudFormation takes it.
func (t Template) YAML() ([]byte, error) {
	var resources Map
	for _, r := range t.Resources {
		resources = append(resources, Prop{r.ID, r.body()})
	}
	doc := Map{{"AWSTemplateFormatVersion", "2010-09-09"}, {"Description", t.Description}, {"Parameters", orNil(t.Parameters)},
		{"Conditions", orNil(t.Conditions)}, {"Resources", resources}, {"Outputs", orNil(t.Outputs)}}
	text, err := encode(doc)
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	return text, nil
}

func (r Resource) body() Map {
	m := Map{{"Type", r.Type}}
	if r.Condition != "" {
		m = append(m, Prop{"Condition", r.Condition})
	}
	if r.DependsOn != "" {
		m = append(m, Prop{"DependsOn", r.DependsOn})
	}
	switch {
	case r.Keep: // but not what a failed creation leaves: it has a name for life, which the next attempt would find taken
		m = append(m, Prop{"DeletionPolicy", "RetainExceptOnCreate"}, Prop{"UpdateReplacePolicy", "Retain"})
	case r.Snapshot:
		m = append(m, Prop{"DeletionPolicy", "Snapshot"}, Prop{"UpdateReplacePolicy", "Snapshot"})
	}
	return append(m, Prop{"Properties", r.Properties})
}

func orNil(m Map) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// plan is what every template is made from.
type plan struct {
	env    string
	stages []stage.Stage // in the order of the work
	all    stage.Pipeline
}

// name is the name of a thing of the environment.
func (p plan) name(rest string) string { return "stagefleet-" + p.env + "-" + rest }

// cluster is the name of the ECS cluster.
func (p plan) cluster() string { return "stagefleet-" + p.env }

// arn is an ARN in the stack's own account and region.
func arn(service, resource string) Sub {
	return Sub("arn:${AWS::Partition}:" + service + ":${AWS::Region}:${AWS::AccountId}:" + resource)
}

// hash identifies everything that the manifest says of an environment.
func (p plan) hash() (string, error) { return p.all.Hash(p.env) }

// tags are on everything that takes them.
func (p plan) tags(stageName string) List {
	tags := List{tag("app", "stagefleet"), tag("env", p.env), tag("owner", Ref("Owner"))}
	if stageName != "" {
		tags = append(tags, tag("stage", stageName))
	}
	return tags
}

func tag(key string, value any) Map { return Map{{"Key", key}, {"Value", value}} }

// parameter describes one parameter of a template; a nil fallback makes it required.
func parameter(name, kind, description string, fallback any, more ...Prop) Prop {
	return Prop{name, append(Map{{"Type", kind}, {"Description", description}, {"Default", fallback}}, more...)}
}

func owner() Prop {
	return parameter("Owner", "String", "Who answers for these resources; the value of their tag owner.", "platform")
}
