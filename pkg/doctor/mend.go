package doctor

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// The commands that mend. A stack whose template has not changed mends nothing, so what can be set alone is set alone.

// quote makes one word of a text for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\${}[]*?;&|<>()`!#~") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// inJSON is a value as an argument.
func inJSON(v any) string {
	text, err := json.Marshal(clean(v))
	if err != nil {
		return "''"
	}
	return quote(string(text))
}

// folder is where the templates of the environment are, after the command that writes them, if they are not in the tree.
func (l *look) folder() (generate, folder string) {
	if l.Env == committed {
		return "", "deploy"
	}
	folder = "build/" + l.Env
	return fmt.Sprintf("fleet generate --env %s --out %s && ", l.Env, folder), folder
}

// deploy is the command that brings a stack of another manifest up to date; what it was told stays. A stack of this one it
// leaves as it is, whatever its resources have become: see restore.
func (l *look) deploy(stack string) string {
	generate, folder := l.folder()
	return generate + fmt.Sprintf("aws cloudformation deploy --stack-name %s --template-file %s/%s.yaml --capabilities CAPABILITY_IAM", stackName(l.Env, stack), folder, stack)
}

// restore is the command that makes resources again what the stack has made them, those that were deleted too.
func (l *look) restore(stack string) string {
	generate, folder := l.folder()
	return generate + folder + "/deploy.sh restore " + stack + " # shows the changes first; a deployment changes nothing as long as the template is the same"
}

// create is the command that makes a stack of which nothing is there.
func (l *look) create(stack string) string {
	generate, folder := l.folder()
	words := stack
	switch name, isStage := strings.CutPrefix(stack, "stage-"); {
	case isStage:
		words = "stage " + name + " IMAGE"
	case stack == "shared":
		words += " Vpc=VPC Subnets=SUBNET,SUBNET"
	case stack != "queues":
		words += " IMAGE"
	}
	return generate + folder + "/deploy.sh " + words + " # the README beside it says with what"
}

// committed is the environment whose templates are in the tree.
const committed = "prod"

// fixed are the attributes that a queue keeps for life.
const fixedAttribute = "FifoQueue"

func setAttribute(w, policy wanted, url string, d difference) string {
	name, _, _ := strings.Cut(d.path, ".")
	if name == fixedAttribute {
		return "aws sqs delete-queue --queue-url " + url + " # once it is empty; and, a minute later: " + createQueue(w, policy)
	}
	value := w.properties[name]
	if value == nil {
		value = kinds[w.kind].implied[name]
	}
	text := plain(value)
	if m, ok := value.(map[string]any); ok {
		encoded, _ := json.Marshal(clean(m)) // of texts and numbers
		text = string(encoded)
	}
	if value == nil || value == (any)(absent{}) {
		text = ""
	}
	return "aws sqs set-queue-attributes --queue-url " + url + " --attributes " + inJSON(map[string]any{name: text})
}

func setPolicy(w wanted, url string) string {
	document, _ := json.Marshal(clean(w.properties["PolicyDocument"])) // of texts
	return "aws sqs set-queue-attributes --queue-url " + url + " --attributes " + inJSON(map[string]any{"Policy": string(document)})
}

// mendAlarm switches actions on, or writes the whole alarm: CloudWatch sets no single field.
func mendAlarm(w wanted, found any, d difference) string {
	if d.path == "ActionsEnabled" {
		return "aws cloudwatch enable-alarm-actions --alarm-names " + quote(w.text("AlarmName"))
	}
	return putAlarm(w, found)
}

// putAlarm writes an alarm; what whoever deployed chose stays as it was found. The tags of one that is there are not written.
func putAlarm(w wanted, found any) string {
	put := map[bool]string{true: "put-metric-alarm", false: "put-composite-alarm"}[w.kind == alarmKinds[0]]
	alarm := filled(w.properties, found).(map[string]any)
	if found != nil {
		delete(alarm, "Tags")
	} else {
		alarm["Tags"] = tagList(w)
	}
	return "aws cloudwatch " + put + " --cli-input-json " + inJSON(alarm)
}

// filled is a wanted value with what is chosen by whoever deploys taken from what was found.
func filled(want, found any) any {
	switch want := want.(type) {
	case chosen, pattern, either:
		if found == nil {
			return fallbackOf(want)
		}
		return found
	case map[string]any:
		m, inner := map[string]any{}, map[string]any{}
		if f, ok := found.(map[string]any); ok {
			inner = f
		}
		for name, value := range want {
			m[name] = filled(value, inner[name])
		}
		return m
	}
	return want
}

// createQueue makes the queue with everything that belongs to it.
func createQueue(w, policy wanted) string {
	document, _ := json.Marshal(clean(policy.properties["PolicyDocument"])) // of texts
	attributes := map[string]any{"Policy": string(document)}
	for name, value := range w.properties {
		if name == "QueueName" || name == "Tags" {
			continue
		}
		attributes[name] = plain(value)
		if m, ok := value.(map[string]any); ok {
			encoded, _ := json.Marshal(clean(m)) // of texts and numbers
			attributes[name] = string(encoded)
		}
	}
	return "aws sqs create-queue --queue-name " + w.text("QueueName") + " --attributes " + inJSON(attributes) + " --tags " + tagPairs(w)
}

func keepLogs(w wanted) string {
	return fmt.Sprintf("aws logs put-retention-policy --log-group-name %s --retention-in-days %v", w.text("LogGroupName"), w.properties["RetentionInDays"])
}

func createLogs(w wanted) string {
	return "aws logs create-log-group --log-group-name " + w.text("LogGroupName") + " --tags " + tagPairs(w) + " && " + keepLogs(w)
}

// tagECS sets the tags of something of ECS.
func tagECS(w wanted, arn string) string {
	var tags []string
	for _, t := range tagsOf(w) {
		if t.key != "" && t.key != "manifest" {
			tags = append(tags, "key="+t.key+",value="+fallbackOf(t.value))
		}
	}
	return "aws ecs tag-resource --resource-arn " + quote(arn) + " --tags " + strings.Join(tags, " ")
}

func (l *look) mendCluster(w wanted, d difference) string {
	if strings.HasPrefix(d.path, "Tags") {
		return tagECS(w, l.arn("ecs", "cluster/"+l.cluster()))
	}
	if strings.HasPrefix(d.path, "CapacityProviders") {
		return fmt.Sprintf("aws ecs put-cluster-capacity-providers --cluster %s --capacity-providers %s --default-capacity-provider-strategy '[]'",
			l.cluster(), strings.Join(plains(listed(w.properties["CapacityProviders"])), " "))
	}
	var settings []string
	for _, s := range listed(w.properties["ClusterSettings"]) {
		settings = append(settings, "name="+nameOf(s, "Name")+",value="+nameOf(s, "Value"))
	}
	return fmt.Sprintf("aws ecs update-cluster-settings --cluster %s --settings %s", l.cluster(), strings.Join(settings, " "))
}

func (l *look) mendService(w wanted, name string, d difference) string {
	if strings.HasPrefix(d.path, "Tags") && d.path != "Tags[manifest]" && !strings.HasPrefix(d.path, "Tags[manifest].") {
		return tagECS(w, l.arn("ecs", "service/"+l.cluster()+"/"+name))
	}
	update := fmt.Sprintf("aws ecs update-service --cluster %s --service %s", l.cluster(), name)
	switch field, _, _ := strings.Cut(strings.ReplaceAll(d.path, "[", "."), "."); field {
	case "AvailabilityZoneRebalancing":
		return update + " --availability-zone-rebalancing " + w.text(field)
	case "DeploymentConfiguration":
		return update + " --deployment-configuration " + inJSON(lowered(w.properties[field]))
	case "CapacityProviderStrategy":
		return update + " --force-new-deployment --capacity-provider-strategy " + inJSON(lowered(w.properties[field]))
	case "PlatformVersion":
		return update + " --platform-version " + w.text(field)
	case "PropagateTags":
		return update + " --propagate-tags " + w.text(field)
	case "EnableECSManagedTags":
		return update + " --enable-ecs-managed-tags"
	case "EnableExecuteCommand":
		return update + " --disable-execute-command"
	case "Tags": // the manifest's
		return l.deploy(w.stack)
	}
	return l.restore(w.stack)
}

// mendTaskDefinition goes back to the definition that the stack has made, if that is of this manifest.
func (l *look) mendTaskDefinition(w wanted, name string, live *liveService, d difference) string {
	if strings.HasPrefix(d.path, "Tags") {
		return tagECS(w, aws.ToString(live.TaskDefinition))
	}
	for _, t := range live.Tags {
		if aws.ToString(t.Key) == "manifest" && aws.ToString(t.Value) != l.hashOf(name) {
			return l.deploy(w.stack)
		}
	}
	return fmt.Sprintf("aws ecs update-service --cluster %s --service %s --task-definition \"$(aws cloudformation describe-stacks --stack-name %s --query \"Stacks[0].Outputs[?OutputKey=='TaskDefinition'].OutputValue\" --output text)\"",
		l.cluster(), name, stackName(l.Env, w.stack))
}

// hashOf is the manifest's hash that a service's tag should have.
func (l *look) hashOf(name string) string {
	for _, w := range l.resources("AWS::ECS::Service") {
		for _, t := range listed(w.properties["Tags"]) {
			if w.text("ServiceName") == name && nameOf(t, "Key") == "manifest" {
				return nameOf(t, "Value")
			}
		}
	}
	return ""
}

func mendTarget(w wanted) string {
	return fmt.Sprintf("aws application-autoscaling register-scalable-target --service-namespace ecs --scalable-dimension ecs:service:DesiredCount --resource-id %s --min-capacity %v --max-capacity %v"+
		" --suspended-state DynamicScalingInSuspended=false,DynamicScalingOutSuspended=false,ScheduledScalingSuspended=false",
		w.text("ResourceId"), w.properties["MinCapacity"], w.properties["MaxCapacity"])
}

func mendPolicy(w wanted, id string) string {
	return fmt.Sprintf("aws application-autoscaling put-scaling-policy --service-namespace ecs --scalable-dimension ecs:service:DesiredCount --resource-id %s --policy-name %s --policy-type %s --target-tracking-scaling-policy-configuration %s",
		id, w.text("PolicyName"), w.text("PolicyType"), inJSON(w.properties["TargetTrackingScalingPolicyConfiguration"]))
}

func mendRole(w wanted, name string) string {
	policy := listed(w.properties["Policies"])[0].(map[string]any)
	return fmt.Sprintf("aws iam put-role-policy --role-name %s --policy-name %s --policy-document %s", name, policy["PolicyName"], inJSON(policy["PolicyDocument"]))
}

func mendTrust(w wanted, name string) string {
	return fmt.Sprintf("aws iam update-assume-role-policy --role-name %s --policy-document %s", name, inJSON(w.properties["AssumeRolePolicyDocument"]))
}

func mendBucket(w wanted, name string, found map[string]any, d difference) string {
	field, _, _ := strings.Cut(d.path, ".")
	set := "aws s3api put-%s --bucket " + name + " --%s %s"
	switch field {
	case "PublicAccessBlockConfiguration":
		return fmt.Sprintf(set, "public-access-block", "public-access-block-configuration", inJSON(w.properties[field]))
	case "OwnershipControls":
		return fmt.Sprintf(set, "bucket-ownership-controls", "ownership-controls", inJSON(w.properties[field]))
	case "BucketEncryption":
		return fmt.Sprintf(set, "bucket-encryption", "server-side-encryption-configuration", inJSON(map[string]any{"Rules": encryptionRules(w)}))
	}
	return fmt.Sprintf(set, "bucket-lifecycle-configuration", "lifecycle-configuration", inJSON(map[string]any{"Rules": lifecycleRules(w, found)}))
}

// encryptionRules and lifecycleRules are what the template says, as S3's API names it.
func encryptionRules(w wanted) []any {
	var rules []any
	config, _ := w.properties["BucketEncryption"].(map[string]any)
	for _, r := range listed(config["ServerSideEncryptionConfiguration"]) {
		rules = append(rules, map[string]any{"ApplyServerSideEncryptionByDefault": r.(map[string]any)["ServerSideEncryptionByDefault"]})
	}
	return rules
}

// lifecycleRules keeps the rule that whoever deploys chooses, if it was found.
func lifecycleRules(w wanted, found map[string]any) []any {
	var rules []any
	config, _ := w.properties["LifecycleConfiguration"].(map[string]any)
	there, _ := found["LifecycleConfiguration"].(map[string]any)
	for _, r := range listed(config["Rules"]) {
		rule, always := r.(map[string]any)
		if !always {
			rule = entryOf(listed(there["Rules"]), nameOf(r, "Id"))
		}
		if rule != nil {
			rules = append(rules, apiRule(rule))
		}
	}
	return rules
}

// entryOf is the rule of that ID.
func entryOf(rules []any, id string) map[string]any {
	for _, r := range rules {
		if m, ok := r.(map[string]any); ok && nameOf(m, "Id") == id {
			return m
		}
	}
	return nil
}

func apiRule(rule map[string]any) map[string]any {
	out := map[string]any{"ID": rule["Id"], "Status": rule["Status"], "Filter": map[string]any{}}
	if prefix, ok := rule["Prefix"]; ok && prefix != nil {
		out["Filter"] = map[string]any{"Prefix": prefix}
	}
	if days, ok := rule["ExpirationInDays"]; ok && days != nil {
		out["Expiration"] = map[string]any{"Days": days}
	}
	if abort, ok := rule["AbortIncompleteMultipartUpload"]; ok && abort != nil {
		out["AbortIncompleteMultipartUpload"] = abort
	}
	return out
}

func mendBucketPolicy(w wanted, name string) string {
	return "aws s3api put-bucket-policy --bucket " + name + " --policy " + inJSON(w.properties["PolicyDocument"])
}

// mendMetric looks where a silent metric is made.
func (l *look) mendMetric(m *types.Metric) string {
	for _, d := range m.Dimensions {
		if n := aws.ToString(d.Name); n == "Stage" || n == "ServiceName" {
			return fmt.Sprintf("aws ecs describe-services --cluster %s --services %s --query 'services[0].events[:5]'", l.cluster(), aws.ToString(d.Value))
		}
	}
	return fmt.Sprintf("aws ecs describe-services --cluster %s --services %s --query 'services[0].events[:5]'", l.cluster(), "server")
}

// lowered is a value with names as ECS's API has them.
func lowered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, value := range v {
			m[strings.ToLower(name[:1])+name[1:]] = lowered(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = lowered(item)
		}
		return list
	}
	return v
}
