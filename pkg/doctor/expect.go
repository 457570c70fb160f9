package doctor

import (
	"regexp"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/infra"
)

// place is where an account's resources are.
type place struct{ partition, account, region string }

// wantedStack is a template with everything filled in that the manifest and the place decide.
type wantedStack struct {
	name      string // of the stack
	resources []wanted
}

// wanted is one resource as it should be: maps, lists, strings, numbers and booleans, and the markers below.
type wanted struct {
	stack, id, kind string
	properties      map[string]any
}

// text returns a property that is a text, and "" if it is not.
func (w wanted) text(name string) string {
	s, _ := w.properties[name].(string)
	return s
}

// Markers of what whoever deploys decides, by parameters.
type (
	// chosen is any value. The fallback is what the template says without a choice, if anything.
	chosen struct{ fallback string }
	// absent leaves a property or an entry out.
	absent struct{}
	// pattern is a text with chosen parts.
	pattern struct {
		text, fallback string // as people read it, and as it is without a choice
		re             *regexp.Regexp
	}
	// either is one of two; an absent one may be missing.
	either struct{ a, b any }
)

// resolver fills one template.
type resolver struct {
	template infra.Template
	place    place
	env      string
}

// stackName is the name of a template's stack.
func stackName(env, template string) string { return "stagefleet-" + env + "-" + template }

func wantedOf(t infra.Template, p place, env string) wantedStack {
	r := resolver{t, p, env}
	s := wantedStack{name: stackName(env, t.Name)}
	for _, res := range t.Resources {
		properties := r.value(res.Properties).(map[string]any)
		for _, name := range []string{"PolicyDocument", "AssumeRolePolicyDocument"} {
			if document, ok := properties[name]; ok {
				properties[name] = normal(document)
			}
		}
		s.resources = append(s.resources, wanted{stack: t.Name, id: res.ID, kind: res.Type, properties: properties})
	}
	return s
}

func (r resolver) value(v any) any {
	switch v := v.(type) {
	case infra.Map:
		m := map[string]any{}
		for _, p := range v {
			if p.Value == nil {
				continue
			}
			if filled := r.value(p.Value); filled != (absent{}) {
				m[p.Key] = filled
			}
		}
		return m
	case infra.List:
		list := []any{}
		for _, item := range v {
			if filled := r.value(item); filled != (absent{}) {
				list = append(list, filled)
			}
		}
		return list
	case infra.Ref:
		return r.ref(string(v))
	case infra.GetAtt:
		return r.attribute(string(v))
	case infra.Sub:
		return r.substituted(string(v))
	case infra.If:
		return either{r.value(v.Then), r.value(v.Else)}
	}
	return v
}

// ref is the value of !Ref: a pseudo parameter, the identity of a resource, or what a parameter says.
func (r resolver) ref(name string) any {
	switch name {
	case "AWS::AccountId":
		return r.place.account
	case "AWS::Region":
		return r.place.region
	case "AWS::Partition":
		return r.place.partition
	case "AWS::NoValue":
		return absent{}
	}
	res, ok := r.template.Resource(name)
	if !ok {
		fallback, _ := r.template.Parameters.Get(name, "Default").(string)
		return chosen{fallback}
	}
	property := map[string]string{
		"AWS::CloudWatch::Alarm": "AlarmName", "AWS::CloudWatch::CompositeAlarm": "AlarmName", "AWS::Logs::LogGroup": "LogGroupName",
		"AWS::S3::Bucket": "BucketName", "AWS::ECS::Cluster": "ClusterName", "AWS::SSM::Parameter": "Name",
	}[res.Type]
	if property == "" {
		return chosen{}
	}
	return r.value(res.Properties.Get(property))
}

// attribute is the value of !GetAtt, where the manifest decides it.
func (r resolver) attribute(path string) any {
	id, name, _ := strings.Cut(path, ".")
	res, ok := r.template.Resource(id)
	if !ok {
		return chosen{}
	}
	switch {
	case res.Type == "AWS::SQS::Queue" && name == "Arn":
		return r.arn("sqs", res.Properties.Get("QueueName"))
	case res.Type == "AWS::S3::Bucket" && name == "Arn":
		return r.joined("arn:"+r.place.partition+":s3:::", r.value(res.Properties.Get("BucketName")))
	case res.Type == "AWS::ECS::Service" && name == "Name":
		return r.value(res.Properties.Get("ServiceName"))
	}
	return chosen{}
}

func (r resolver) arn(service string, name any) any {
	return r.joined("arn:"+r.place.partition+":"+service+":"+r.place.region+":"+r.place.account+":", r.value(name))
}

func (r resolver) joined(prefix string, rest any) any {
	if s, ok := rest.(string); ok {
		return prefix + s
	}
	return chosen{}
}

var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// substituted is the value of !Sub; chosen parts make it a pattern.
func (r resolver) substituted(text string) any {
	var plain, shown, fallback, expression strings.Builder
	open, last := false, 0
	for _, at := range reference.FindAllStringIndex(text, -1) {
		name := text[at[0]+2 : at[1]-1]
		value := r.ref(name)
		if strings.Contains(name, ".") {
			value = r.attribute(name)
		}
		literal, known := value.(string)
		before := text[last:at[0]]
		last = at[1]
		fallback.WriteString(before + fallbackOf(value))
		plain.WriteString(before + literal)
		shown.WriteString(before)
		expression.WriteString(regexp.QuoteMeta(before))
		if known {
			shown.WriteString(literal)
			expression.WriteString(regexp.QuoteMeta(literal))
			continue
		}
		open = true
		shown.WriteString("…")
		expression.WriteString("(?s:.*)")
	}
	if !open {
		return plain.String() + text[last:]
	}
	shown.WriteString(text[last:])
	return pattern{shown.String(), fallback.String() + text[last:], regexp.MustCompile("^" + expression.String() + regexp.QuoteMeta(text[last:]) + "$")}
}

// fallbackOf is a text for a value when nothing says what was chosen.
func fallbackOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case chosen:
		return v.fallback
	case pattern:
		return v.fallback
	}
	return show(v)
}

func isChosen(v any) bool { _, ok := v.(chosen); return ok }
