package doctor_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// What commands that mend change. A resource is found by its name, and what is written takes the place of what was.

// raised are names as CloudFormation writes them, from those of ECS.
func raised(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, value := range v {
			m[strings.ToUpper(name[:1])+name[1:]] = raised(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = raised(v[i])
		}
		return list
	case float64:
		if v == float64(int(v)) {
			return int(v)
		}
	}
	return v
}

// named finds a resource by a property.
func (a *live) named(property string, value any, kinds ...string) *resource {
	for _, kind := range kinds {
		for _, r := range a.of(kind) {
			if r.properties[property] == value {
				return r
			}
		}
	}
	return nil
}

// writes are the answers to operations that change something; nil if the thing is not there.
func (a *live) writes() map[string]func(map[string]any) map[string]any {
	done := map[string]any{}
	return map[string]func(map[string]any) map[string]any{
		"EnableAlarmActions": func(in map[string]any) map[string]any {
			for _, name := range in["AlarmNames"].([]any) {
				r := a.named("AlarmName", name, "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
				if r == nil {
					return nil
				}
				r.properties["ActionsEnabled"] = true
			}
			return done
		},
		"PutMetricAlarm": func(in map[string]any) map[string]any { return a.put("AWS::CloudWatch::Alarm", "AlarmName", in) },
		"PutCompositeAlarm": func(in map[string]any) map[string]any {
			return a.put("AWS::CloudWatch::CompositeAlarm", "AlarmName", in)
		},
		"UpdateService": func(in map[string]any) map[string]any {
			r := a.named("ServiceName", in["service"], "AWS::ECS::Service")
			if r == nil {
				return nil
			}
			if stack, ok := in["taskDefinition"].(string); ok {
				a.restore(strings.TrimPrefix(stack, "task definition of "), "TaskDefinition")
			}
			a.update(r, in, "cluster", "service", "taskDefinition", "forceNewDeployment")
			return map[string]any{"service": map[string]any{}}
		},
		"UpdateClusterSettings": func(in map[string]any) map[string]any {
			a.of("AWS::ECS::Cluster")[0].properties["ClusterSettings"] = raised(in["settings"])
			return done
		},
		"PutClusterCapacityProviders": func(in map[string]any) map[string]any {
			a.of("AWS::ECS::Cluster")[0].properties["CapacityProviders"] = in["capacityProviders"]
			return done
		},
		"TagResource": func(in map[string]any) map[string]any {
			for _, kind := range []string{"AWS::ECS::Cluster", "AWS::ECS::Service", "AWS::ECS::TaskDefinition"} {
				for _, r := range a.of(kind) {
					if ecsARN(r) == in["resourceArn"] {
						addTags(r, raised(in["tags"]).([]any))
						return done
					}
				}
			}
			return nil
		},
		"RegisterScalableTarget": func(in map[string]any) map[string]any {
			return a.put("AWS::ApplicationAutoScaling::ScalableTarget", "ResourceId", in)
		},
		"PutScalingPolicy": func(in map[string]any) map[string]any {
			delete(in, "ServiceNamespace")
			delete(in, "ScalableDimension")
			service := in["ResourceId"].(string)
			delete(in, "ResourceId")
			return a.putIn("AWS::ApplicationAutoScaling::ScalingPolicy", "PolicyName", "stage-"+service[strings.LastIndex(service, "/")+1:], in)
		},
		"DeleteScalingPolicy": func(in map[string]any) map[string]any {
			r := a.named("PolicyName", in["PolicyName"], "AWS::ApplicationAutoScaling::ScalingPolicy")
			if r == nil {
				return nil
			}
			r.kind = "deleted"
			return done
		},
		"PutParameter": func(in map[string]any) map[string]any {
			if in["Overwrite"] != true && a.named("Name", in["Name"], "AWS::SSM::Parameter") != nil {
				return nil
			}
			delete(in, "Overwrite")
			return a.put("AWS::SSM::Parameter", "Name", in)
		},
		"CreateLogGroup": func(in map[string]any) map[string]any {
			tags := []any{}
			for key, value := range in["tags"].(map[string]any) {
				tags = append(tags, map[string]any{"Key": key, "Value": value})
			}
			return a.put("AWS::Logs::LogGroup", "LogGroupName", map[string]any{"LogGroupName": in["logGroupName"], "Tags": tags})
		},
		"PutRetentionPolicy": func(in map[string]any) map[string]any {
			r := a.named("LogGroupName", in["logGroupName"], "AWS::Logs::LogGroup")
			if r == nil {
				return nil
			}
			r.properties["RetentionInDays"] = raised(in["retentionInDays"])
			return done
		},
		"TagResources": func(in map[string]any) map[string]any {
			for _, arn := range in["ResourceARNList"].([]any) {
				for _, r := range a.resources {
					if tagARN(r) != arn {
						continue
					}
					var tags []any
					for key, value := range in["Tags"].(map[string]any) {
						tags = append(tags, map[string]any{"Key": key, "Value": value})
					}
					addTags(r, tags)
				}
			}
			return map[string]any{"FailedResourcesMap": map[string]any{}}
		},
	}
}

func ecsARN(r *resource) string {
	arn := "arn:aws:ecs:" + region + ":" + account + ":"
	switch r.kind {
	case "AWS::ECS::Cluster":
		return arn + "cluster/stagefleet-prod"
	case "AWS::ECS::Service":
		return arn + "service/stagefleet-prod/" + text(r.properties["ServiceName"])
	}
	return arn + "task-definition/" + text(r.properties["Family"]) + ":7"
}

// addTags adds tags to those of a resource, or changes them.
func addTags(r *resource, tags []any) {
	if m, ok := r.properties["Tags"].(map[string]any); ok { // of a parameter
		for _, t := range tags {
			m[t.(map[string]any)["Key"].(string)] = t.(map[string]any)["Value"]
		}
		return
	}
	list, _ := r.properties["Tags"].([]any)
	for _, t := range tags {
		key := t.(map[string]any)["Key"]
		kept := []any{}
		for _, old := range list {
			if old.(map[string]any)["Key"] != key {
				kept = append(kept, old)
			}
		}
		kept = append(kept, t)
		list = kept
	}
	r.properties["Tags"] = list
}

// put writes a resource, and makes it where there is none. Tags that are not said stay.
func (a *live) put(kind, property string, in map[string]any) map[string]any {
	return a.putIn(kind, property, "", in)
}

func (a *live) putIn(kind, property, stack string, in map[string]any) map[string]any {
	in = raised(in).(map[string]any)
	r := a.named(property, in[property], kind)
	if r == nil {
		r = &resource{stack: stack, id: "New", kind: kind, properties: map[string]any{}}
		a.resources = append(a.resources, r)
	}
	if tags, said := r.properties["Tags"]; said && in["Tags"] == nil {
		in["Tags"] = tags
	}
	r.properties = in
	return map[string]any{}
}

// update changes those properties of a resource that are said.
func (a *live) update(r *resource, in map[string]any, but ...string) {
	for name, value := range in {
		if value == nil || contains(but, name) {
			continue
		}
		r.properties[strings.ToUpper(name[:1])+name[1:]] = raised(value)
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// restore makes a resource of a stack what the stack made.
func (a *live) restore(stack, id string) {
	for _, r := range original {
		if r.stack == stack && r.id == id {
			for _, mine := range a.resources {
				if mine.stack == stack && mine.id == id {
					mine.properties = copied(r.properties).(map[string]any)
				}
			}
		}
	}
}

// writeIAM changes a role; false if it is not there.
func (a *live) writeIAM(form url.Values) bool {
	for _, r := range a.of("AWS::IAM::Role") {
		if roleName(r) != form.Get("RoleName") {
			continue
		}
		var document any
		if err := json.Unmarshal([]byte(form.Get("PolicyDocument")), &document); err != nil {
			return false
		}
		if form.Get("Action") == "UpdateAssumeRolePolicy" {
			r.properties["AssumeRolePolicyDocument"] = document
			return true
		}
		r.properties["Policies"] = []any{map[string]any{"PolicyName": form.Get("PolicyName"), "PolicyDocument": document}}
		return true
	}
	return false
}

// writeS3 changes how the bucket is set up.
func (a *live) writeS3(w http.ResponseWriter, query string, body []byte) {
	what, _, _ := strings.Cut(query, "&")
	bucket := a.of("AWS::S3::Bucket")[0].properties
	if strings.TrimSuffix(what, "=") == "policy" {
		var document map[string]any
		if json.Unmarshal(body, &document) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		a.of("AWS::S3::BucketPolicy")[0].properties["PolicyDocument"] = document
		return
	}
	config, err := fromXML(strings.NewReader(string(body)))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	rules := slices.Clone(config["Rule"].([]any))
	switch strings.TrimSuffix(what, "=") {
	case "encryption":
		for _, r := range rules {
			rule := r.(map[string]any)
			rule["ServerSideEncryptionByDefault"] = first(rule["ApplyServerSideEncryptionByDefault"])
			delete(rule, "ApplyServerSideEncryptionByDefault")
		}
		bucket["BucketEncryption"] = map[string]any{"ServerSideEncryptionConfiguration": rules}
	case "publicAccessBlock":
		bucket["PublicAccessBlockConfiguration"] = config
	case "ownershipControls":
		bucket["OwnershipControls"] = map[string]any{"Rules": rules}
	case "lifecycle":
		for _, r := range rules {
			rule := r.(map[string]any)
			rule["Id"] = rule["ID"]
			delete(rule, "ID")
			delete(rule, "Filter")
			if abort := first(rule["AbortIncompleteMultipartUpload"]); abort != nil {
				rule["AbortIncompleteMultipartUpload"] = abort
			}
		}
		bucket["LifecycleConfiguration"] = map[string]any{"Rules": rules}
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func first(v any) any {
	if list, ok := v.([]any); ok && len(list) > 0 {
		return list[0]
	}
	return v
}

// fromXML reads elements: those with inner ones as lists of maps, others as texts, numbers and booleans.
func fromXML(r io.Reader) (map[string]any, error) {
	d := xml.NewDecoder(r)
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		if _, ok := token.(xml.StartElement); ok {
			m, _, err := element(d)
			if m["Rule"] == nil {
				m["Rule"] = []any{}
			}
			return m, err
		}
	}
}

func element(d *xml.Decoder) (map[string]any, string, error) {
	m, said := map[string]any{}, ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return m, said, nil
		}
		if err != nil {
			return nil, "", err
		}
		switch token := token.(type) {
		case xml.CharData:
			said += string(token)
		case xml.EndElement:
			return m, said, nil
		case xml.StartElement:
			inner, text, err := element(d)
			if err != nil {
				return nil, "", err
			}
			name := token.Name.Local
			if len(inner) > 0 || text == "" {
				list, _ := m[name].([]any)
				m[name] = append(list, inner)
				continue
			}
			m[name] = valueOf(text)
		}
	}
}

func valueOf(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return b
	}
	return text
}
