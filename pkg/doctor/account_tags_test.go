package doctor_test

import (
	"fmt"
	"slices"
)

// tagsPerPage is that of the tagging API.
const tagsPerPage = 100

// tagged answers with the resources that have the tags that are asked for, a page at a time.
func (a *live) tagged(in map[string]any) map[string]any {
	var all []any
	for _, r := range a.resources {
		tags := tagsOf(r)
		if arn := tagARN(r); arn != "" && matchesTags(tags, in["TagFilters"].([]any)) {
			var list []any
			for key, value := range tags {
				list = append(list, map[string]any{"Key": key, "Value": value})
			}
			all = append(all, map[string]any{"ResourceARN": arn, "Tags": list})
		}
	}
	from := 0
	if token, _ := in["PaginationToken"].(string); token != "" {
		_, _ = fmt.Sscan(token, &from)
	}
	end := min(from+tagsPerPage, len(all))
	out := map[string]any{"ResourceTagMappingList": all[from:end], "PaginationToken": ""}
	if end < len(all) {
		out["PaginationToken"] = fmt.Sprint(end)
	}
	return out
}

func matchesTags(tags map[string]any, filters []any) bool {
	for _, f := range filters {
		filter := f.(map[string]any)
		if !slices.Contains(filter["Values"].([]any), tags[filter["Key"].(string)]) {
			return false
		}
	}
	return true
}

func tagsOf(r *resource) map[string]any {
	if m, ok := r.properties["Tags"].(map[string]any); ok {
		return m
	}
	all := map[string]any{}
	list, _ := r.properties["Tags"].([]any)
	for _, t := range list {
		all[t.(map[string]any)["Key"].(string)] = t.(map[string]any)["Value"]
	}
	return all
}

// tagARN is empty for types whose tags the doctor learns otherwise, or not at all.
func tagARN(r *resource) string {
	arn := func(service, name string) string {
		return "arn:aws:" + service + ":" + region + ":" + account + ":" + name
	}
	name := func(property string) string { s, _ := r.properties[property].(string); return s }
	switch r.kind {
	case "AWS::SQS::Queue":
		return arn("sqs", name("QueueName"))
	case "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm":
		return arn("cloudwatch", "alarm:"+name("AlarmName"))
	case "AWS::Logs::LogGroup":
		return arn("logs", "log-group:"+name("LogGroupName"))
	case "AWS::SSM::Parameter":
		return arn("ssm", "parameter"+name("Name"))
	case "AWS::SNS::Topic":
		return arn("sns", name("TopicName"))
	case "AWS::ECR::Repository":
		return arn("ecr", "repository/"+name("RepositoryName"))
	case "AWS::S3::Bucket":
		return "arn:aws:s3:::" + name("BucketName")
	}
	return ""
}
