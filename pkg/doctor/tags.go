package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"
)

// What is asked of GetResources: at most so many resources a page (Resource Groups Tagging API Reference), and pages.
const (
	tagsPerPage = 100
	tagPages    = 20
)

// taggedAs says what the ARN of a resource ends with, by its type, and which property is in it. These are the types whose
// names the manifest decides and that the tagging API knows; services, task definitions and the cluster tell their tags
// themselves.
var taggedAs = map[string]struct{ service, format, property string }{
	"AWS::SQS::Queue":                 {"sqs", "%s", "QueueName"},
	"AWS::CloudWatch::Alarm":          {"cloudwatch", "alarm:%s", "AlarmName"},
	"AWS::CloudWatch::CompositeAlarm": {"cloudwatch", "alarm:%s", "AlarmName"},
	"AWS::Logs::LogGroup":             {"logs", "log-group:%s", "LogGroupName"},
	"AWS::SSM::Parameter":             {"ssm", "parameter%s", "Name"},
	"AWS::SNS::Topic":                 {"sns", "%s", "TopicName"},
	"AWS::ECR::Repository":            {"ecr", "repository/%s", "RepositoryName"},
	"AWS::S3::Bucket":                 {"s3", "%s", "BucketName"},
}

// tags looks at the tags of everything at once: a resource that has not the tags of the environment is not in the answer.
func (l *look) tags(ctx context.Context) {
	found, err := l.liveTags(ctx)
	if err != nil {
		l.unseen(PartTags, "all tags", err)
		return
	}
	for _, stack := range l.templates {
		for _, w := range stack.resources {
			if as, ok := taggedAs[w.kind]; ok && !slices.Contains(l.gone[w.stack], w.text(as.property)) {
				l.tag(w, l.taggedARN(w), found)
			}
		}
	}
}

func (l *look) taggedARN(w wanted) string {
	as := taggedAs[w.kind]
	name := fmt.Sprintf(as.format, w.text(as.property))
	if w.kind == "AWS::S3::Bucket" {
		return "arn:" + l.place.partition + ":s3:::" + name
	}
	return l.arn(as.service, name)
}

func (l *look) tag(w wanted, arn string, all map[string]map[string]string) {
	if l.gone[w.stack] != nil && !l.there[w.stack] {
		return // nothing of the stack is there
	}
	l.report.Looked++
	found, wants := all[arn], tagsOf(w)
	differ := func(field, want, got string) {
		l.find(Finding{Part: PartTags, Resource: shortTagged(arn), Field: field, Expected: want, Found: got,
			Why: becauseTags, Mend: mendTags(w, arn)})
	}
	if found == nil {
		differ("Tags", "app=stagefleet, env="+l.Env, "not both of them")
		return
	}
	for _, t := range wants {
		switch value, ok := found[t.key]; {
		case !ok:
			differ("Tags["+t.key+"]", show(t.value), "nothing")
		case !isChosen(t.value) && value != t.value:
			differ("Tags["+t.key+"]", show(t.value), value)
		}
	}
}

// wantedTag is a tag whose value may be chosen by whoever deploys.
type wantedTag struct {
	key   string
	value any
}

// tagsOf are the tags that a resource should have; a parameter's are a map, all others a list.
func tagsOf(w wanted) []wantedTag {
	var all []wantedTag
	if m, ok := w.properties["Tags"].(map[string]any); ok {
		for key, value := range m {
			all = append(all, wantedTag{key, value})
		}
		slices.SortFunc(all, func(a, b wantedTag) int { return strings.Compare(a.key, b.key) })
		return all
	}
	for _, t := range listed(w.properties["Tags"]) {
		if m, ok := t.(map[string]any); ok {
			all = append(all, wantedTag{plain(m["Key"]), m["Value"]})
		}
	}
	return all
}

// liveTags are the tags of the environment's resources, by their ARNs.
func (l *look) liveTags(ctx context.Context) (map[string]map[string]string, error) {
	in := &resourcegroupstaggingapi.GetResourcesInput{ResourcesPerPage: aws.Int32(tagsPerPage), TagFilters: []types.TagFilter{
		{Key: aws.String("app"), Values: []string{"stagefleet"}}, {Key: aws.String("env"), Values: []string{l.Env}},
	}}
	found := map[string]map[string]string{}
	for range tagPages {
		out, err := l.Account.Tags.GetResources(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range out.ResourceTagMappingList {
			tags := map[string]string{}
			for _, t := range r.Tags {
				tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
			}
			found[strings.TrimSuffix(aws.ToString(r.ResourceARN), ":*")] = tags
		}
		if in.PaginationToken = out.PaginationToken; aws.ToString(in.PaginationToken) == "" {
			return found, nil
		}
	}
	return nil, fmt.Errorf("more than %d resources have the environment's tags", tagsPerPage*tagPages)
}

// shortTagged is the name of a resource as the other parts call it.
func shortTagged(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	name := parts[len(parts)-1]
	for _, prefix := range []string{"alarm:", "log-group:", "parameter"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

// mendTags sets all tags.
func mendTags(w wanted, arn string) string {
	return "aws resourcegroupstaggingapi tag-resources --resource-arn-list " + quote(arn) + " --tags " + tagPairs(w)
}

// tagPairs are the tags of a resource as KEY=VALUE,...
func tagPairs(w wanted) string {
	var tags []string
	for _, t := range tagsOf(w) {
		tags = append(tags, t.key+"="+fallbackOf(t.value))
	}
	return strings.Join(tags, ",")
}

// keyValues are the tags of a resource as Key=KEY,Value=VALUE ...
func keyValues(w wanted) string {
	var tags []string
	for _, t := range tagsOf(w) {
		tags = append(tags, "Key="+t.key+",Value="+fallbackOf(t.value))
	}
	return strings.Join(tags, " ")
}

// tagList are the tags of a resource as a list.
func tagList(w wanted) []any {
	var tags []any
	for _, t := range tagsOf(w) {
		tags = append(tags, map[string]any{"Key": t.key, "Value": fallbackOf(t.value)})
	}
	return tags
}
