package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/stagefleet/stagefleet/pkg/control"
)

// killSwitch looks whether the parameter is there and can be read as workers read it. What it says is for people to decide.
func (l *look) killSwitch(ctx context.Context) {
	w := l.resources("AWS::SSM::Parameter")[0]
	name := w.text("Name")
	mend := fmt.Sprintf("aws ssm put-parameter --name %s --type String --value %s", name, w.text("Value"))
	out, err := l.Account.Parameters.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	if errors.As(err, new(*types.ParameterNotFound)) {
		l.missing(PartSwitch, w, name, mend+" --tags "+keyValues(w))
		return
	}
	if err == nil && out.Parameter == nil {
		err = errors.New("the answer was empty")
	}
	if err != nil {
		l.unseen(PartSwitch, name, err)
		return
	}
	l.compare(PartSwitch, w, name, tree(out.Parameter), func(difference) string { return mend + " --overwrite" })
	if wrong := l.unreadable(aws.ToString(out.Parameter.Value)); wrong != "" {
		l.find(Finding{Part: PartSwitch, Resource: name, Field: "Value", Expected: `true, false, or {"all":true,"stages":{"NAME":false}}`,
			Found: shorten(wrong), Why: reason(w.kind, "Value"), Mend: mend + " --overwrite"})
	}
}

// unreadable says what is wrong with the switch's value.
func (l *look) unreadable(value string) string {
	if _, err := control.Enabled(value, ""); err != nil {
		return fmt.Sprintf("%q: %v", value, err)
	}
	var named struct{ Stages map[string]bool }
	_ = json.Unmarshal([]byte(value), &named) // true and false name no stage
	for _, name := range slices.Sorted(maps.Keys(named.Stages)) {
		if _, ok := l.Pipeline.Stage(name); !ok {
			return fmt.Sprintf("%q names stage %q, which does not exist", value, name)
		}
	}
	return ""
}

func (l *look) bucket(ctx context.Context) {
	w := l.resources("AWS::S3::Bucket")[0]
	name := w.text("BucketName")
	found := map[string]any{"BucketName": name}
	for _, read := range []func(context.Context, string, map[string]any) error{l.encryption, l.access, l.ownership, l.lifecycle, l.bucketPolicy} {
		err := read(ctx, name, found)
		if code(err) == "NoSuchBucket" {
			l.missing(PartBucket, w, name, l.restore(w.stack))
			return
		}
		if err != nil {
			l.unseen(PartBucket, name, err)
			return
		}
	}
	l.compare(PartBucket, w, name, found, func(d difference) string { return mendBucket(w, name, found, d) })
	policy := l.resources("AWS::S3::BucketPolicy")[0]
	l.compare(PartBucket, policy, name, found, func(difference) string { return mendBucketPolicy(policy, name) })
}

// unset is nil for the codes by which S3 says that a bucket has no such configuration.
func unset(err error, codes ...string) error {
	if slices.Contains(codes, code(err)) {
		return nil
	}
	return err
}

// code is the service's name of an error, and "" if it has none.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func (l *look) encryption(ctx context.Context, name string, found map[string]any) error {
	out, err := l.Account.Buckets.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: &name})
	if err != nil || out.ServerSideEncryptionConfiguration == nil {
		return unset(err, "ServerSideEncryptionConfigurationNotFoundError")
	}
	var rules []any
	for _, r := range out.ServerSideEncryptionConfiguration.Rules {
		rule := tree(r).(map[string]any)
		rule["ServerSideEncryptionByDefault"] = rule["ApplyServerSideEncryptionByDefault"]
		rules = append(rules, rule)
	}
	found["BucketEncryption"] = map[string]any{"ServerSideEncryptionConfiguration": rules}
	return nil
}

func (l *look) access(ctx context.Context, name string, found map[string]any) error {
	out, err := l.Account.Buckets.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &name})
	if err != nil {
		return unset(err, "NoSuchPublicAccessBlockConfiguration")
	}
	found["PublicAccessBlockConfiguration"] = tree(out.PublicAccessBlockConfiguration)
	return nil
}

func (l *look) ownership(ctx context.Context, name string, found map[string]any) error {
	out, err := l.Account.Buckets.GetBucketOwnershipControls(ctx, &s3.GetBucketOwnershipControlsInput{Bucket: &name})
	if err != nil {
		return unset(err, "OwnershipControlsNotFoundError")
	}
	found["OwnershipControls"] = tree(out.OwnershipControls)
	return nil
}

func (l *look) lifecycle(ctx context.Context, name string, found map[string]any) error {
	out, err := l.Account.Buckets.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &name})
	if err != nil {
		return unset(err, "NoSuchLifecycleConfiguration")
	}
	var rules []any
	for _, r := range out.Rules {
		rule := tree(r).(map[string]any)
		rule["Id"] = rule["ID"]
		if r.Filter != nil && r.Filter.Prefix != nil {
			rule["Prefix"] = *r.Filter.Prefix
		}
		if r.Expiration != nil && r.Expiration.Days != nil {
			rule["ExpirationInDays"] = float64(*r.Expiration.Days)
		}
		rules = append(rules, rule)
	}
	found["LifecycleConfiguration"] = map[string]any{"Rules": rules}
	return nil
}

func (l *look) bucketPolicy(ctx context.Context, name string, found map[string]any) error {
	out, err := l.Account.Buckets.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &name})
	if err != nil {
		return unset(err, "NoSuchBucketPolicy")
	}
	var document any
	if err := json.Unmarshal([]byte(aws.ToString(out.Policy)), &document); err != nil {
		return fmt.Errorf("read the bucket's policy: %w", err)
	}
	found["PolicyDocument"] = normal(document)
	return nil
}

// logPages bounds the listing: fifty groups a page.
const logPages = 10

func (l *look) logs(ctx context.Context) {
	prefix := "/stagefleet/" + l.Env + "/"
	found := map[string]any{}
	in := &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &prefix, Limit: aws.Int32(50)}
	for range logPages {
		out, err := l.Account.Logs.DescribeLogGroups(ctx, in)
		if err != nil {
			l.unseen(PartLogs, "all log groups", err)
			return
		}
		for _, g := range out.LogGroups {
			found[aws.ToString(g.LogGroupName)] = tree(g)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	for _, w := range l.resources("AWS::Logs::LogGroup") {
		name := w.text("LogGroupName")
		if found[name] == nil {
			l.missing(PartLogs, w, name, createLogs(w))
			continue
		}
		l.compare(PartLogs, w, name, found[name], func(difference) string { return keepLogs(w) })
	}
}
