package doctor_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	folder  = "../../deploy"
)

// The stacks as somebody deployed them: from the files that are committed, with these parameters.
var parameters = map[string]any{
	"Image": "111122223333.dkr.ecr.eu-west-1.amazonaws.com/stagefleet-prod@sha256:" + strings.Repeat("a", 64),
	"Vpc":   "vpc-1", "Subnets": []any{"subnet-1", "subnet-2"}, "SecurityGroup": "sg-1", "LoadBalancerSecurityGroup": "sg-2",
	"DatabaseSecret": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:record", "LanguageSecret": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:language",
	"AWS::AccountId": account, "AWS::Region": region, "AWS::Partition": "aws",
}

// stack is a deployed template.
type stack struct {
	name       string
	parameters map[string]any
	conditions map[string]*yaml.Node
	nodes      map[string]*yaml.Node // resources
	resources  map[string]*resource
}

// resource is one deployed resource; its properties are what a test changes.
type resource struct {
	stack, id, kind string
	properties      map[string]any
	chosen          map[string]bool // paths whose value a parameter decided
}

type removed struct{}

// deployed returns the resources of every template of the folder, for the test to change.
func deployed(t testing.TB) []*resource {
	t.Helper()
	once.Do(func() { original = read(t) })
	var all []*resource
	for _, r := range original {
		own := *r
		own.properties = copied(r.properties).(map[string]any)
		all = append(all, &own)
	}
	return all
}

var (
	once     sync.Once
	original []*resource
)

func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, value := range v {
			m[name] = copied(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = copied(item)
		}
		return list
	}
	return v
}

func read(t testing.TB) []*resource {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates in %s: %v", folder, err)
	}
	var all []*resource
	for _, file := range files {
		if s := readStack(t, file); s != nil {
			for _, id := range slices.Sorted(maps.Keys(s.resources)) {
				all = append(all, s.resources[id])
			}
		}
	}
	return all
}

// readStack returns nil for files that are no templates.
func readStack(t testing.TB, file string) *stack {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	top := children(doc.Content[0])
	if top["AWSTemplateFormatVersion"] == nil {
		return nil
	}
	s := &stack{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), parameters: maps.Clone(parameters), resources: map[string]*resource{}}
	for name, p := range children(top["Parameters"]) {
		if fallback := children(p)["Default"]; fallback != nil && s.parameters[name] == nil {
			s.parameters[name] = s.value(fallback, "", nil)
		}
	}
	s.conditions, s.nodes = children(top["Conditions"]), children(top["Resources"])
	for id := range s.nodes {
		s.make(id)
	}
	return s
}

// make returns the resource of that ID, and nil when its condition does not hold.
func (s *stack) make(id string) *resource {
	if r, made := s.resources[id]; made {
		return r
	}
	parts := children(s.nodes[id])
	if c := parts["Condition"]; c != nil && !s.holds(s.conditions[c.Value]) {
		return nil
	}
	r := &resource{stack: s.name, id: id, kind: parts["Type"].Value, chosen: map[string]bool{}}
	s.resources[id] = r
	r.properties = s.value(parts["Properties"], "", r.chosen).(map[string]any)
	return r
}

func children(n *yaml.Node) map[string]*yaml.Node {
	all := map[string]*yaml.Node{}
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		all[n.Content[i].Value] = n.Content[i+1]
	}
	return all
}

func (s *stack) value(n *yaml.Node, path string, chosen map[string]bool) any {
	switch n.Tag {
	case "!Ref":
		if v, ok := s.parameters[n.Value]; ok {
			if !strings.HasPrefix(n.Value, "AWS::") && chosen != nil {
				chosen[path] = true
			}
			return v
		}
		return s.reference(n.Value)
	case "!GetAtt":
		return s.attribute(n.Value)
	case "!Sub":
		if strings.Contains(n.Value, "${Runbooks}") {
			chosen[path] = true
		}
		return regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(n.Value, func(m string) string {
			name := m[2 : len(m)-1]
			if v, ok := s.parameters[name]; ok {
				return fmt.Sprint(v)
			}
			if strings.Contains(name, ".") {
				return fmt.Sprint(s.attribute(name))
			}
			return fmt.Sprint(s.reference(name))
		})
	case "!If":
		if s.holds(s.conditions[n.Content[0].Value]) {
			return s.value(n.Content[1], path, chosen)
		}
		return s.value(n.Content[2], path, chosen)
	}
	return s.plain(n, path, chosen)
}

func (s *stack) plain(n *yaml.Node, path string, chosen map[string]bool) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for name, child := range children(n) {
			if v := s.value(child, path+"."+name, chosen); v != (any)(removed{}) {
				m[name] = v
			}
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, child := range n.Content {
			if v := s.value(child, fmt.Sprintf("%s[%d]", path, len(list)), chosen); v != (any)(removed{}) {
				list = append(list, v)
			}
		}
		return list
	default:
	}
	var v any
	if err := n.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

func (s *stack) holds(n *yaml.Node) bool {
	switch n.Tag {
	case "!Equals":
		return fmt.Sprint(s.value(n.Content[0], "", nil)) == fmt.Sprint(s.value(n.Content[1], "", nil))
	case "!Not":
		return !s.holds(n.Content[0])
	case "!And":
		return s.holds(n.Content[0]) && s.holds(n.Content[1])
	case "!Condition":
		return s.holds(s.conditions[n.Value])
	}
	panic("condition " + n.Tag)
}

// reference is the identity that AWS gives a resource.
func (s *stack) reference(id string) any {
	if id == "AWS::NoValue" {
		return removed{}
	}
	r := s.make(id)
	if r == nil {
		return removed{}
	}
	for _, name := range []string{"AlarmName", "LogGroupName", "BucketName", "ClusterName", "ServiceName", "Name"} {
		if v, ok := r.properties[name].(string); ok {
			return v
		}
	}
	return "id-of-" + id
}

func (s *stack) attribute(path string) any {
	id, name, _ := strings.Cut(path, ".")
	r := s.make(id)
	switch {
	case r == nil:
		return removed{}
	case name == "Arn" && r.kind == "AWS::SQS::Queue":
		return "arn:aws:sqs:" + region + ":" + account + ":" + r.properties["QueueName"].(string)
	case name == "Arn" && r.kind == "AWS::S3::Bucket":
		return "arn:aws:s3:::" + r.properties["BucketName"].(string)
	case name == "Arn" && r.kind == "AWS::IAM::Role":
		return roleARN(r)
	case name == "Name":
		return s.reference(id)
	}
	return "attribute-" + name + "-of-" + id
}

// roleARN has the path that the role was made in.
func roleARN(r *resource) string {
	return "arn:aws:iam::" + account + ":role/stagefleet/prod/" + roleName(r)
}

func roleName(r *resource) string { return "stagefleet-prod-" + r.stack + "-" + r.id }
