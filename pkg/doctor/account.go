package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
)

// What the doctor uses of each service; nothing of it writes.
type (
	// Identity says which account the credentials belong to.
	Identity interface {
		GetCallerIdentity(context.Context, *sts.GetCallerIdentityInput, ...func(*sts.Options)) (*sts.GetCallerIdentityOutput, error)
	}
	// Queues reads queues.
	Queues interface {
		ListQueues(context.Context, *sqs.ListQueuesInput, ...func(*sqs.Options)) (*sqs.ListQueuesOutput, error)
		GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	}
	// Alarms reads alarms and metrics.
	Alarms interface {
		DescribeAlarms(context.Context, *cloudwatch.DescribeAlarmsInput, ...func(*cloudwatch.Options)) (*cloudwatch.DescribeAlarmsOutput, error)
		GetMetricData(context.Context, *cloudwatch.GetMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.GetMetricDataOutput, error)
	}
	// Services reads clusters, services and task definitions.
	Services interface {
		DescribeClusters(context.Context, *ecs.DescribeClustersInput, ...func(*ecs.Options)) (*ecs.DescribeClustersOutput, error)
		DescribeServices(context.Context, *ecs.DescribeServicesInput, ...func(*ecs.Options)) (*ecs.DescribeServicesOutput, error)
		DescribeTaskDefinition(context.Context, *ecs.DescribeTaskDefinitionInput, ...func(*ecs.Options)) (*ecs.DescribeTaskDefinitionOutput, error)
	}
	// Scaling reads what scales services.
	Scaling interface {
		DescribeScalableTargets(context.Context, *applicationautoscaling.DescribeScalableTargetsInput, ...func(*applicationautoscaling.Options)) (*applicationautoscaling.DescribeScalableTargetsOutput, error)
		DescribeScalingPolicies(context.Context, *applicationautoscaling.DescribeScalingPoliciesInput, ...func(*applicationautoscaling.Options)) (*applicationautoscaling.DescribeScalingPoliciesOutput, error)
	}
	// Parameters reads the kill switch.
	Parameters interface {
		GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
	}
	// Buckets reads how a bucket is set up.
	Buckets interface {
		GetBucketEncryption(context.Context, *s3.GetBucketEncryptionInput, ...func(*s3.Options)) (*s3.GetBucketEncryptionOutput, error)
		GetBucketLifecycleConfiguration(context.Context, *s3.GetBucketLifecycleConfigurationInput, ...func(*s3.Options)) (*s3.GetBucketLifecycleConfigurationOutput, error)
		GetBucketOwnershipControls(context.Context, *s3.GetBucketOwnershipControlsInput, ...func(*s3.Options)) (*s3.GetBucketOwnershipControlsOutput, error)
		GetBucketPolicy(context.Context, *s3.GetBucketPolicyInput, ...func(*s3.Options)) (*s3.GetBucketPolicyOutput, error)
		GetPublicAccessBlock(context.Context, *s3.GetPublicAccessBlockInput, ...func(*s3.Options)) (*s3.GetPublicAccessBlockOutput, error)
	}
	// Logs reads log groups.
	Logs interface {
		DescribeLogGroups(context.Context, *cloudwatchlogs.DescribeLogGroupsInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.DescribeLogGroupsOutput, error)
	}
	// Permissions reads roles, and asks what one may do, without doing it.
	Permissions interface {
		ListRoles(context.Context, *iam.ListRolesInput, ...func(*iam.Options)) (*iam.ListRolesOutput, error)
		SimulatePrincipalPolicy(context.Context, *iam.SimulatePrincipalPolicyInput, ...func(*iam.Options)) (*iam.SimulatePrincipalPolicyOutput, error)
	}
)

// Tags reads the tags of resources of all services.
type Tags interface {
	GetResources(context.Context, *resourcegroupstaggingapi.GetResourcesInput, ...func(*resourcegroupstaggingapi.Options)) (*resourcegroupstaggingapi.GetResourcesOutput, error)
}

// Account is the eyes of the doctor. Every field is required.
type Account struct {
	Identity    Identity
	Queues      Queues
	Alarms      Alarms
	Services    Services
	Scaling     Scaling
	Parameters  Parameters
	Buckets     Buckets
	Logs        Logs
	Permissions Permissions
	Tags        Tags
}

// NewAccount returns the account that a configuration leads to.
func NewAccount(cfg aws.Config) Account {
	return Account{
		Identity: sts.NewFromConfig(cfg), Queues: sqs.NewFromConfig(cfg), Alarms: cloudwatch.NewFromConfig(cfg), Services: ecs.NewFromConfig(cfg),
		Scaling: applicationautoscaling.NewFromConfig(cfg), Parameters: ssm.NewFromConfig(cfg), Logs: cloudwatchlogs.NewFromConfig(cfg),
		Permissions: iam.NewFromConfig(cfg), Tags: resourcegroupstaggingapi.NewFromConfig(cfg),
		Buckets: s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil }),
	}
}

// errNoRegion is the reason when nothing says where to look.
var errNoRegion = errors.New("no AWS region: set AWS_REGION, or region in the profile that AWS_PROFILE names")

// Configuration returns the AWS configuration of the environment. It fails when that names no region.
func Configuration(ctx context.Context) (aws.Config, error) {
	cfg, err := awshttp.Config(ctx)
	if err == nil && cfg.Region == "" {
		err = errNoRegion
	}
	return cfg, err
}

// identify finds out whose account it is, and takes the clock's time from the same answer. Without it nothing can be looked at.
func (l *look) identify(ctx context.Context) bool {
	before := time.Now()
	out, err := l.Account.Identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		l.unseen(PartAccount, "everything", err)
		return false
	}
	parts := strings.SplitN(aws.ToString(out.Arn), ":", 3)
	if len(parts) < 3 || aws.ToString(out.Account) == "" {
		l.unseen(PartAccount, "everything", fmt.Errorf("the credentials belong to %q, which is no ARN", aws.ToString(out.Arn)))
		return false
	}
	l.place = place{partition: parts[1], account: *out.Account, region: l.Region}
	l.report.Account = *out.Account
	if server, ok := awsmiddleware.GetServerTime(out.ResultMetadata); ok {
		l.skew = skew(before, time.Now(), server)
		l.clockSeen = true
	}
	return true
}

// skew is how far the local clock is from a server's, of which only whole seconds are known: zero when the server's second
// and the time of the call overlap.
func skew(before, after, server time.Time) time.Duration {
	switch end := server.Add(time.Second); {
	case before.After(end):
		return before.Sub(end)
	case after.Before(server):
		return after.Sub(server)
	}
	return 0
}

func (l *look) clock(context.Context) {
	if !l.clockSeen {
		l.unseen(PartClock, "clock", errors.New("AWS's answer had no date"))
		return
	}
	l.report.Looked++
	if l.skew.Abs() > ClockBound {
		l.find(Finding{Part: PartClock, Resource: "clock of this machine", Field: "time", Expected: "within " + ClockBound.String() + " of AWS's",
			Found: fmt.Sprintf("%v off", l.skew.Round(time.Second)), Mend: "sudo timedatectl set-ntp true",
			Why: "AWS refuses requests that are signed five minutes off, and times in logs cannot be compared"})
	}
}
