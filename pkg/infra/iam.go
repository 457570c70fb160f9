package infra

import (
	"slices"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// ObjectPrefix is where a fleet's objects are in its bucket.
const ObjectPrefix = "fleet"

// Keys under which objects are: what submitters send, and what executions write (packages api and worker).
const (
	uploads = ObjectPrefix + "/uploads/"
	results = ObjectPrefix + "/jobs/"
)

// bucket is the name of the bucket, which must be unique in the world.
func (p plan) bucket() Sub { return Sub(p.cluster() + "-${AWS::AccountId}-${AWS::Region}") }

func (p plan) objects(keys string) Sub {
	return Sub("arn:${AWS::Partition}:s3:::" + string(p.bucket()) + "/" + keys)
}

// allow is one statement of a policy.
func allow(sid string, actions []string, resources ...any) Map {
	return Map{{"Sid", sid}, {"Effect", "Allow"}, {"Action", list(actions)}, {"Resource", List(resources)}}
}

func list(texts []string) List {
	var l List
	for _, t := range texts {
		l = append(l, t)
	}
	return l
}

// trust lets ECS tasks of this account take a role.
func trust() Map {
	return document(Map{
		{"Effect", "Allow"}, {"Principal", Map{{"Service", "ecs-tasks.amazonaws.com"}}}, {"Action", "sts:AssumeRole"},
		{"Condition", Map{
			{"StringEquals", Map{{"aws:SourceAccount", Ref("AWS::AccountId")}}},
			{"ArnLike", Map{{"aws:SourceArn", arn("ecs", "*")}}},
		}},
	})
}

// RolePath is where the roles of an environment are, so that one look finds them all.
func RolePath(env string) string { return "/stagefleet/" + env + "/" }

func (p plan) rolePath() string { return RolePath(p.env) }

func role(path, id, description string, tags List, policy string, statements ...any) Resource {
	return Resource{ID: id, Type: "AWS::IAM::Role", Properties: Map{
		{"Path", path},
		{"Description", description},
		{"AssumeRolePolicyDocument", trust()},
		{"Policies", List{Map{{"PolicyName", policy}, {"PolicyDocument", document(statements...)}}}},
		{"Tags", tags},
	}}
}

// The actions that the processes call, by what they call them on. A batch call needs the permission of the single one.
var (
	receiving  = []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
	sending    = []string{"sqs:SendMessage", "sqs:GetQueueUrl"}
	writing    = []string{"s3:PutObject", "s3:AbortMultipartUpload"}
	reading    = []string{"s3:GetObject"}
	switching  = []string{"ssm:GetParameter"}
	protecting = []string{"ecs:UpdateTaskProtection"}
	counting   = []string{"sqs:GetQueueAttributes"}
)

// targets are the queues that a stage's worker sends to: its own for retries, its dead letters, the next one, and, as a
// fan-out of no parts leads there directly, the join's.
func (p plan) targets(s stage.Stage) ([]any, error) {
	set, err := p.all.Settings(p.env, s.Name)
	if err != nil {
		return nil, err
	}
	names := []string{set.Own.Queue, set.Own.DLQ}
	for _, r := range []*stage.Route{set.Next, set.Join} {
		if r != nil && !slices.Contains(names, r.Queue) {
			names = append(names, r.Queue)
		}
	}
	var arns []any
	for _, n := range names {
		arns = append(arns, arn("sqs", n))
	}
	return arns, nil
}

func (p plan) parameterARN() Sub { return arn("ssm", "parameter"+control.ParameterName(p.env)) }

// taskRole is what a stage's worker may do.
func (p plan) taskRole(s stage.Stage) (Resource, error) {
	targets, err := p.targets(s)
	if err != nil {
		return Resource{}, err
	}
	statements := []any{
		allow("Receive", receiving, arn("sqs", s.QueueName(p.env))),
		allow("Send", sending, targets...),
		allow("ReadObjects", reading, p.objects(uploads+"*"), p.objects(results+"*")),
		allow("KillSwitch", switching, p.parameterARN()),
		allow("ProtectOwnTask", protecting, arn("ecs", "task/"+p.cluster()+"/*")),
	}
	if !s.ReadsOnly {
		statements = append(statements, allow("WriteOwnObjects", writing, p.objects(results+"*/"+s.Name+"/*")))
	}
	return role(p.rolePath(), "TaskRole", "What a worker of stage "+s.Name+" may do", p.tags(s.Name), "worker", statements...), nil
}

// serverRole is what the server may do: relay to every queue, count and sweep, take uploads, hand results out, and collect garbage.
func (p plan) serverRole() Resource {
	var all, dead List
	for _, s := range p.stages {
		all = append(all, arn("sqs", s.QueueName(p.env)), arn("sqs", s.DLQName(p.env)))
		dead = append(dead, arn("sqs", s.DLQName(p.env)))
	}
	return role(p.rolePath(), "TaskRole", "What the server may do", p.tags(server), server,
		allow("Relay", slices.Concat(sending, counting), all...),
		allow("SweepDeadLetters", receiving, dead...),
		allow("ReadObjects", reading, p.objects(uploads+"*"), p.objects(results+"*")),
		allow("WriteUploads", writing, p.objects(uploads+"*")),
		allow("CollectGarbage", []string{"s3:DeleteObject"}, p.objects(uploads+"*"), p.objects(results+"*")),
		append(allow("ListGarbage", []string{"s3:ListBucket"}, Sub("arn:${AWS::Partition}:s3:::"+string(p.bucket()))),
			Prop{"Condition", Map{{"StringLike", Map{{"s3:prefix", List{uploads + "*", results + "*"}}}}}}),
	)
}

// executionRole is what ECS itself may do to start a task.
func (p plan) executionRole(name string, secrets []secret) Resource {
	statements := []any{
		allow("Log", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, GetAtt("Logs.Arn")),
		allow("PullToken", []string{"ecr:GetAuthorizationToken"}, "*"), // takes no resource (Service Authorization Reference, Amazon ECR)
		allow("Pull", []string{"ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability"}, arn("ecr", "repository/"+p.cluster())),
	}
	for _, s := range secrets {
		var statement any = allow("Read"+s.parameter, []string{"secretsmanager:GetSecretValue"}, Ref(s.parameter))
		if s.condition != "" {
			statement = If{s.condition, statement, NoValue}
		}
		statements = append(statements, statement)
	}
	return role(p.rolePath(), "ExecutionRole", "What ECS may do to start a task of "+name, p.tags(name), "start", statements...)
}

// secret is an environment variable whose value is in Secrets Manager.
type secret struct {
	variable, parameter string
	condition           string // empty: always
}
