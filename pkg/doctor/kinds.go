package doctor

import "strings"

// kind says how a type of resource is compared.
type kind struct {
	// implied are properties that templates leave out, at the value that they have then.
	implied map[string]any
	// ignored are paths that are not compared: what names the resource, and what only whoever deploys knows.
	ignored []string
	// why a property matters, by the beginning of its path; the first one that fits; "" is the last resort.
	why []because
}

type because struct{ path, why string }

// kinds are the types that are compared. Of the others, see unlooked.
var kinds = map[string]kind{
	"AWS::SQS::Queue": {
		implied: map[string]any{"DelaySeconds": 0, "KmsMasterKeyId": absent{}},
		ignored: []string{"Tags"},
		why: []because{
			{"VisibilityTimeout", "a message whose worker is silent so long is given to another; beats are set by it"},
			{"MessageRetentionPeriod", "after that time work or a dead letter is gone"},
			{"ReceiveMessageWaitTimeSeconds", "short polls cost more and find less"},
			{"MaximumMessageSize", "what a fleet sends is far smaller; a larger bound lets others fill the queue"},
			{"SqsManagedSseEnabled", "messages lie in the clear"},
			{"KmsMasterKeyId", "the roles may not use a key of your own, so nothing can be sent or received"},
			{"RedrivePolicy.maxReceiveCount", "too few lose healthy work to the dead letters, too many let poison run on"},
			{"RedrivePolicy", "without it a message that cannot be handled comes back for ever"},
			{"RedriveAllowPolicy", "another queue could put its dead letters among these"},
			{"FifoQueue", "two steps of one recording could run at once"},
			{"DeduplicationScope", "one busy recording would slow all others down"},
			{"FifoThroughputLimit", "one busy recording would slow all others down"},
			{"DelaySeconds", "every message waits before it can be received"},
			{"", "without it the stage before it cannot send"},
		},
	},
	"AWS::SQS::QueuePolicy": {
		ignored: []string{"Queues"},
		why:     []because{{"", "only this statement refuses requests that do not come over TLS, and others may let strangers in"}},
	},
	"AWS::CloudWatch::Alarm":          {implied: alarmsAct, ignored: []string{"Tags"}, why: alarmReasons},
	"AWS::CloudWatch::CompositeAlarm": {implied: alarmsAct, ignored: []string{"Tags"}, why: alarmReasons},
	"AWS::ECS::Cluster": {
		why: []because{
			{"Tags", becauseTags},
			{"ClusterSettings", "scaling divides by the number of running tasks, which only Container Insights counts"},
			{"CapacityProviders", "services ask for this capacity"},
			{"", "all services run in it"},
		},
	},
	"AWS::ECS::Service": {
		implied: map[string]any{"EnableExecuteCommand": false},
		ignored: []string{"ServiceName", "Cluster", "TaskDefinition", "DesiredCount", "HealthCheckGracePeriodSeconds", "LoadBalancers"},
		why: []because{
			{"Tags[manifest]", "the stack was deployed from another manifest"},
			{"Tags", becauseTags},
			{"AvailabilityZoneRebalancing", "rebalancing stops tasks that work, only to start them elsewhere"},
			{"DeploymentConfiguration.DeploymentCircuitBreaker", "a release that does not start would be tried for hours"},
			{"DeploymentConfiguration.Alarms", "a release whose handlers fail would not be rolled back"},
			{"DeploymentConfiguration", "a deployment would stop working tasks before new ones run"},
			{"CapacityProviderStrategy", "capacity that is taken back would hold the tasks that must stay, or cost would be twice"},
			{"NetworkConfiguration", "tasks would be reachable, or would not reach AWS"},
			{"PropagateTags", "costs of tasks would belong to nobody"},
			{"EnableECSManagedTags", "costs of tasks would belong to nobody"},
			{"EnableExecuteCommand", "somebody can open a shell in a worker, and the role does not foresee it"},
			{"DesiredCount", "fewer than the least leaves work undone, more than the most overruns what the stage may use"},
			{"PlatformVersion", "what was tested runs on this version"},
			{"", "without it the stage does no work"},
		},
	},
	"AWS::ECS::TaskDefinition": {
		ignored: []string{"Family"},
		why: []because{
			{"Tags", becauseTags},
			{"ContainerDefinitions[*].StopTimeout", "a worker that is killed before its drain has ended gives its work up half done"},
			{"ContainerDefinitions[*].Environment[FLEET_STAGE", "the workers run with the settings of another manifest"},
			{"ContainerDefinitions[*].LinuxParameters.InitProcessEnabled", "without an init process the tools of a worker that died are left as zombies"},
			{"ContainerDefinitions[*].LinuxParameters", "a break-in could do more than the worker may"},
			{"ContainerDefinitions[*].ReadonlyRootFilesystem", "a break-in could change the program"},
			{"ContainerDefinitions[*].User", "a break-in could do more than the worker may"},
			{"ContainerDefinitions[*].Image", "a tag can be moved: only a digest says what runs"},
			{"ContainerDefinitions[*].VersionConsistency", "tasks of one deployment could run different images"},
			{"ContainerDefinitions[*].HealthCheck", "a worker that hangs would not be replaced, or a busy one would"},
			{"ContainerDefinitions[*].LogConfiguration", "logs are lost, or a slow log stops the worker"},
			{"ContainerDefinitions[*].Secrets", "a worker lacks a key, or has one that is not its own"},
			{"ContainerDefinitions", "the workers do not run as the manifest says"},
			{"Cpu", "the profile was measured with it"},
			{"Memory", "the profile was measured with it"},
			{"EphemeralStorage", "an input of the largest size would not fit on the disk"},
			{"", "the workers do not run as the manifest says"},
		},
	},
	"AWS::ApplicationAutoScaling::ScalableTarget": {
		implied: map[string]any{"SuspendedState": map[string]any{"DynamicScalingInSuspended": false, "DynamicScalingOutSuspended": false, "ScheduledScalingSuspended": false}},
		why: []because{
			{"SuspendedState", "the stage keeps the number of tasks that it had, whatever waits"},
			{"MinCapacity", "below it nobody works, above it idle tasks cost"},
			{"MaxCapacity", "it bounds what the stage may use of its providers and of the record"},
			{"", "without it the number of tasks never changes"},
		},
	},
	"AWS::ApplicationAutoScaling::ScalingPolicy": {
		ignored: []string{"ScalingTargetId"},
		why: []because{
			{"PolicyName", "two policies pull at one number; one on the processor would stop busy tasks"},
			{"TargetTrackingScalingPolicyConfiguration.TargetValue", "it decides how long messages wait and what that costs"},
			{"TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification", "with waiting messages alone, busy tasks would be stopped when the queue is empty"},
			{"TargetTrackingScalingPolicyConfiguration", "it decides how soon tasks come and go"},
			{"", "without it the number of tasks never changes"},
		},
	},
	"AWS::SSM::Parameter": {
		ignored: []string{"Tags", "Description", "Value"},
		why: []because{
			{"Value", "workers that cannot read it keep what they last knew, so the fleet cannot be stopped"},
			{"", "without it the fleet cannot be stopped at once"},
		},
	},
	"AWS::S3::Bucket": {
		ignored: []string{"Tags"},
		why: []because{
			{"PublicAccessBlockConfiguration", "recordings could be made public"},
			{"OwnershipControls", "objects could carry access rules of their own"},
			{"BucketEncryption", "recordings lie in the clear"},
			{"LifecycleConfiguration", "what a crash left half uploaded, or what is old, is kept and paid for ever"},
			{"", "without it there is no place for recordings and results"},
		},
	},
	"AWS::S3::BucketPolicy": {
		ignored: []string{"Bucket"},
		why:     []because{{"", "only this statement refuses requests that do not come over TLS, and others may let strangers in"}},
	},
	"AWS::IAM::Role": {
		// What it may do is asked by simulation, which also covers policies that others attached; the grants of a role that starts
		// tasks show by tasks that do not start. Its tags are told by a call for each role alone.
		ignored: []string{"Policies", "Description", "Tags", "Path"}, // a role has its path for life, and is looked for under it
		why: []because{
			{"AssumeRolePolicyDocument", "somebody else could take the role, or tasks can not"},
			{"", "without it tasks do not start"},
		},
	},
	"AWS::Logs::LogGroup": {
		ignored: []string{"Tags"},
		why: []because{
			{"RetentionInDays", "logs vanish too soon, or are kept and paid for ever"},
			{"", "without it tasks do not start"},
		},
	},
}

const becauseTags = "costs and duties are told apart by tags: these belong to nobody"

var alarmsAct = map[string]any{"ActionsEnabled": true}

var alarmReasons = []because{
	{"ActionsEnabled", "it rings and tells nobody"},
	{"AlarmActions", "it does not tell those who should know"},
	{"OKActions", "nobody learns that it is over"},
	{"Threshold", "it rings too late or for nothing"},
	{"EvaluationPeriods", "it rings too late or for nothing"},
	{"DatapointsToAlarm", "it rings too late or for nothing"},
	{"Period", "it rings too late or for nothing"},
	{"ComparisonOperator", "it rings for the opposite"},
	{"TreatMissingData", "a queue that sleeps says nothing: the alarm would ring for it, or never end"},
	{"Statistic", "it watches another quantity"},
	{"MetricName", "it watches another quantity"},
	{"Namespace", "it watches another quantity"},
	{"Dimensions", "it watches something else than this stage"},
	{"Metrics", "it watches another quantity"},
	{"AlarmDescription", "who is woken by it does not learn what to do first"},
	{"AlarmRule", "it rings for other alarms than it should"},
	{"ActionsSuppressor", "a pause would be told as a fault, or a fault as a pause"},
	{"", "nobody would be told"},
}

// unlooked are the types that are made and not compared, with the reason.
var unlooked = map[string]string{
	"AWS::SNS::Topic":                           "the alarms' actions name it; an alarm that cannot tell it says so in its history",
	"AWS::SNS::Subscription":                    "whoever deploys chooses who is told",
	"AWS::SNS::TopicPolicy":                     "an alarm that cannot tell its topic says so in its history",
	"AWS::EC2::SecurityGroup":                   "whoever deploys chooses the network",
	"AWS::EC2::VPCEndpoint":                     "whoever deploys chooses the network",
	"AWS::RDS::DBInstance":                      "the record may be elsewhere; the schema is looked at through its URL",
	"AWS::RDS::DBSubnetGroup":                   "whoever deploys chooses the network",
	"AWS::SecretsManager::Secret":               "the doctor reads no secret",
	"AWS::ECR::Repository":                      "task definitions name images by digest",
	"AWS::Budgets::Budget":                      "whoever deploys chooses the amount",
	"AWS::CloudWatch::Dashboard":                "it only shows",
	"AWS::ElasticLoadBalancingV2::LoadBalancer": "whoever deploys chooses whether there is one",
	"AWS::ElasticLoadBalancingV2::TargetGroup":  "whoever deploys chooses whether there is one",
	"AWS::ElasticLoadBalancingV2::Listener":     "whoever deploys chooses whether there is one",
}

// reason says why a property of a type matters; with an empty path, why the resource does.
func reason(resource, path string) string {
	if i, j := strings.Index(path, "["), strings.Index(path, "]"); strings.HasPrefix(path, "ContainerDefinitions[") && j > i {
		path = path[:i] + "[*]" + path[j+1:]
	}
	all := kinds[resource].why
	for _, b := range all {
		if b.path != "" && strings.HasPrefix(path, b.path) {
			return b.why
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].why
}
