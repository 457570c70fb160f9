package infra_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/workers"
)

// place is a value somewhere in a resource.
type place struct {
	path string // without the places in lists
	set  func(any)
	was  any
}

// placesOf lists every value of a resource, the inner ones too.
func placesOf(m infra.Map) []place {
	var all []place
	var walk func(path string, value any, set func(any))
	walk = func(path string, value any, set func(any)) {
		if value == nil {
			return
		}
		if path != "" {
			all = append(all, place{path, set, value})
		}
		switch v := value.(type) {
		case infra.Map:
			for i := range v {
				walk(path+"."+v[i].Key, v[i].Value, func(x any) { v[i].Value = x })
			}
		case infra.List:
			for i := range v {
				walk(path+"[]", v[i], func(x any) { v[i] = x })
			}
		}
	}
	walk("", m, nil)
	return all
}

// other is another value of the same kind; nil where there is none.
func other(value any) any {
	switch v := value.(type) {
	case string:
		return v + "x"
	case int:
		return v + 1
	case float64:
		return v + 1
	case bool:
		return !v
	case infra.Sub:
		return v + "x"
	case infra.Ref:
		return infra.Ref("AWS::Partition")
	case infra.GetAtt:
		return infra.Ref("AWS::Partition")
	case infra.If:
		return v.Else
	case infra.List:
		return append(slices.Clone(v), "x")
	}
	return nil
}

// immaterial are the values that mean nothing to AWS and to what runs: texts for people.
var immaterial = regexp.MustCompile(`^(AWS::IAM::Role \.Description|AWS::EC2::SecurityGroup \.(GroupDescription|SecurityGroup\w+\[\]\.Description)|` +
	`AWS::(SSM::Parameter|SecretsManager::Secret) \.Description|AWS::RDS::DBSubnetGroup \.DBSubnetGroupDescription|AWS::IAM::Role \.Policies\[\]\.PolicyName|` +
	`AWS::(SQS::QueuePolicy|SNS::TopicPolicy|S3::BucketPolicy) \.PolicyDocument\.Statement\[\]\.Sid)$`)

// looseEnds are values of which another one, or one more, is no fault, with the reason.
var looseEnds = regexp.MustCompile(`^(AWS::\S+ \.Tags(\[\])?$)`) // one more tag; those that must be there are looked for

// TestNoValueOfATemplateCanChangeUnnoticed changes and removes every value of every resource, and takes every resource away.
// It looks at one stage with a FIFO queue and a language model, at one with a standard queue, and at what all share.
func TestNoValueOfATemplateCanChangeUnnoticed(t *testing.T) {
	unnoticed, tried, rulesSeen := map[string]int{}, 0, map[string]bool{}
	for i, tmpl := range templates(t) {
		if name, isStage := strings.CutPrefix(tmpl.Name, "stage-"); isStage && name != "compile" && name != "identify" {
			continue
		}
		try := func(what string, change, back func()) {
			tried++
			change()
			found := rules(infra.Judge([]infra.Template{tmpl}, workers.Stages, env))
			back()
			if found == "" {
				unnoticed[what]++
			}
			for r := range strings.FieldsSeq(found) {
				rulesSeen[r] = true
			}
		}
		all := tmpl.Resources
		for n, r := range all {
			if tmpl.Name == "queues" && !strings.HasPrefix(r.ID, "Compile") && !strings.HasPrefix(r.ID, "Ingest") ||
				tmpl.Name == "stage-identify" && r.Type == "AWS::CloudWatch::Alarm" || r.Type == "AWS::EC2::VPCEndpoint" && r.ID > "EndpointEcs" {
				continue // the others are like these
			}
			try(r.Type+" gone: "+r.ID, func() { tmpl.Resources = append(slices.Clone(all[:n]), all[n+1:]...) }, func() { tmpl.Resources = all })
			if r.Keep || r.Snapshot {
				try(r.Type+" goes with its stack: "+r.ID, func() { all[n].Keep, all[n].Snapshot = false, false }, func() { all[n] = r })
			}
			for _, p := range placesOf(r.Properties) {
				what := r.Type + " " + p.path
				if immaterial.MatchString(what) {
					continue
				}
				if !strings.HasSuffix(p.path, "[]") && (p.was != true || !strings.HasSuffix(p.path, ".ReturnData")) { // which is true unless it is said
					try(what+" removed", func() { p.set(nil) }, func() { p.set(p.was) })
				}
				if list, ok := p.was.(infra.List); ok && len(list) > 0 {
					try(what+" without its last entry", func() { p.set(list[:len(list)-1]) }, func() { p.set(p.was) })
				}
				if x := other(p.was); x != nil && !looseEnds.MatchString(what) {
					try(what+" changed", func() { p.set(x) }, func() { p.set(p.was) })
				}
			}
		}
		if err := infra.Check([]infra.Template{tmpl}, workers.Stages, env); err != nil {
			t.Fatalf("template %d is not as it was: %v", i, err)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(unnoticed)) {
		t.Errorf("unnoticed in %d places: %s", unnoticed[what], what)
	}
	t.Logf("%d changes, caught by %d rules: %s", tried, len(rulesSeen), fmt.Sprint(slices.Sorted(maps.Keys(rulesSeen))))
}
