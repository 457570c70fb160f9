package infra

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Finding is one fault of a template, with the rule that it breaks.
type Finding struct {
	Rule, Template, Resource, Detail string
}

// Error returns one line.
func (f Finding) Error() string {
	return fmt.Sprintf("%s: %s: %s: %s", f.Template, f.Resource, f.Rule, f.Detail)
}

// checker looks at the templates of one manifest.
type checker struct {
	plan
	template Template
	resource Resource
	found    []error
}

func (c *checker) must(ok bool, rule, detail string, args ...any) {
	if !ok {
		c.found = append(c.found, Finding{rule, c.template.Name, c.resource.ID, fmt.Sprintf(detail, args...)})
	}
}

// Check judges templates by what is wrong in an account although CloudFormation would take it, and by the structure of their
// resources. The error joins a Finding for each fault. Generate returns nothing that does not pass.
func Check(templates []Template, pipeline stage.Pipeline, env string) error {
	stages, err := pipeline.Ordered()
	if err != nil {
		return err
	}
	c := &checker{plan: plan{env: env, stages: stages, all: pipeline}}
	for _, t := range templates {
		c.template, c.resource = t, Resource{ID: "template"}
		c.whole()
		for _, r := range t.Resources {
			c.resource = r
			c.structure()
			c.references(r.Properties)
			if rule := domain[r.Type]; rule != nil {
				rule(c, r.Properties)
			}
		}
	}
	return errors.Join(c.found...)
}

// domain are the rules of a type, beyond its structure.
var domain = map[string]func(*checker, Map){
	"AWS::SQS::Queue":                             (*checker).queue,
	"AWS::SQS::QueuePolicy":                       (*checker).queuePolicy,
	"AWS::CloudWatch::Alarm":                      (*checker).alarm,
	"AWS::CloudWatch::CompositeAlarm":             (*checker).compositeAlarm,
	"AWS::ECS::TaskDefinition":                    (*checker).task,
	"AWS::ECS::Service":                           (*checker).service,
	"AWS::ApplicationAutoScaling::ScalableTarget": (*checker).bounds,
	"AWS::ApplicationAutoScaling::ScalingPolicy":  (*checker).policy,
	"AWS::IAM::Role":                              (*checker).roleRules,
	"AWS::Logs::LogGroup":                         (*checker).logs,
	"AWS::S3::Bucket":                             (*checker).bucketRules,
}

func (c *checker) whole() {
	text, err := c.template.YAML()
	c.must(err == nil && len(text) < MaxBytes && len(c.template.Resources) < MaxResources, "size", "%d bytes, %d resources", len(text), len(c.template.Resources))
	if c.template.Name == "migrate" {
		return // runs whatever the manifest says
	}
	want, err := c.hash()
	if s, ok := c.stage(); ok {
		set, _ := c.all.Settings(c.env, s.Name) // Ordered has validated the manifest
		want = set.Hash()
	}
	c.must(err == nil && strings.HasSuffix(c.template.Description, want), "manifest-hash", "the description does not end with the manifest's hash")
}

// stage is the one that the template is of.
func (c *checker) stage() (stage.Stage, bool) {
	name, ok := strings.CutPrefix(c.template.Name, "stage-")
	if !ok {
		return stage.Stage{}, false
	}
	return c.all.Stage(name)
}

var inSub = regexp.MustCompile(`\$\{([A-Za-z0-9.:]+)\}`)

// references must lead to a resource, a parameter or a condition of the template.
func (c *checker) references(value any) {
	switch v := value.(type) {
	case Map:
		for _, p := range v {
			c.references(p.Value)
		}
	case List:
		for _, item := range v {
			c.references(item)
		}
	case If:
		c.must(c.template.Conditions.value(v.Condition) != nil, "reference", "there is no condition %s", v.Condition)
		c.references(v.Then)
		c.references(v.Else)
	case Ref:
		c.known(string(v))
	case GetAtt:
		c.known(string(v))
	case Sub:
		for _, m := range inSub.FindAllStringSubmatch(string(v), -1) {
			c.known(m[1])
		}
	}
}

func (c *checker) known(name string) {
	name, _, _ = strings.Cut(name, ".")
	_, resource := c.template.Resource(name)
	c.must(resource || strings.HasPrefix(name, "AWS::") || c.template.Parameters.value(name) != nil, "reference", "there is no %s", name)
}

// queue finds the stage by the queue's name and compares everything that the manifest says of it.
func (c *checker) queue(q Map) {
	name, _ := q.Get("QueueName").(string)
	i := slices.IndexFunc(c.stages, func(s stage.Stage) bool { return s.QueueName(c.env) == name || s.DLQName(c.env) == name })
	if i < 0 {
		c.must(false, "queue-name", "%q is the queue of no stage", name)
		return
	}
	s := c.stages[i]
	fifo, _ := q.Get("FifoQueue").(bool)
	c.must(fifo == (s.Queue == stage.FIFO) && fifo == strings.HasSuffix(name, ".fifo"), "queue-type", "FIFO is %v, the stage's queue is %s", fifo, s.Queue)
	c.must((q.Get("DeduplicationScope") == "messageGroup") == fifo && (q.Get("FifoThroughputLimit") == "perMessageGroupId") == fifo, "queue-throughput", "scope and limit go together, for FIFO")
	c.must(q.Get("SqsManagedSseEnabled") == true, "queue-encryption", "messages are not encrypted")
	c.must(c.resource.Keep, "queue-kept", "the queue goes with its stack")
	_, policy := c.template.Resource(c.resource.ID + "Policy")
	c.must(policy, "tls-only", "no policy denies requests without TLS")
	if name == s.DLQName(c.env) {
		c.must(q.Get("MessageRetentionPeriod") == seconds(s.Durations.DLQRetention), "dlq-retention", "%v s, want %v", q.Get("MessageRetentionPeriod"), s.Durations.DLQRetention)
		sources, _ := q.Get("RedriveAllowPolicy", "sourceQueueArns").(List)
		c.must(q.Get("RedriveAllowPolicy", "redrivePermission") == "byQueue" && len(sources) == 1 && sources[0] == arn("sqs", s.QueueName(c.env)), "redrive-allow", "must name %s alone", s.QueueName(c.env))
		return
	}
	c.must(q.Get("RedrivePolicy", "deadLetterTargetArn") == GetAtt(logical(s.Name)+"DLQ.Arn"), "dlq-wiring", "dead letters of %s go to %v", s.Name, q.Get("RedrivePolicy", "deadLetterTargetArn"))
	c.must(q.Get("RedrivePolicy", "maxReceiveCount") == s.Retry.MaxReceives, "max-receives", "%v, want %d", q.Get("RedrivePolicy", "maxReceiveCount"), s.Retry.MaxReceives)
	c.must(q.Get("VisibilityTimeout") == seconds(s.Durations.Visibility), "queue-visibility", "%v s, want %v", q.Get("VisibilityTimeout"), s.Durations.Visibility)
	c.must(q.Get("MessageRetentionPeriod") == seconds(s.Durations.Retention), "queue-retention", "%v s, want %v", q.Get("MessageRetentionPeriod"), s.Durations.Retention)
}

func (c *checker) queuePolicy(p Map) {
	for _, s := range statementsOf(p.Get("PolicyDocument")) {
		c.must(s.Get("Effect") == "Deny" && s.Get("Condition", "Bool", "aws:SecureTransport") == "false", "tls-only", "the statement does not deny requests without TLS")
	}
}

func statementsOf(document any) []Map {
	m, _ := document.(Map)
	var all []Map
	statements, _ := m.Get("Statement").(List)
	for _, s := range statements {
		if choice, ok := s.(If); ok {
			s = choice.Then
		}
		if s, ok := s.(Map); ok {
			all = append(all, s)
		}
	}
	return all
}

func (c *checker) logs(g Map) {
	c.must(g.Get("RetentionInDays") == LogDays, "log-retention", "%v days, want %d", g.Get("RetentionInDays"), LogDays)
}

func (c *checker) bucketRules(b Map) {
	c.must(b.Get("PublicAccessBlockConfiguration", "BlockPublicPolicy") == true, "bucket-private", "the bucket may be made public")
	c.must(b.Get("LifecycleConfiguration", "Rules") != nil, "bucket-lifecycle", "nothing removes what was half uploaded")
}
