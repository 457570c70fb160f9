package infra

import (
	"errors"
	"fmt"
	"reflect"
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
	settings map[string]stage.Settings // by stage
	manifest string                    // the hash of it all
	template Template
	resource Resource
	found    []error
}

func (c *checker) must(ok bool, rule, detail string, args ...any) {
	if !ok {
		c.found = append(c.found, Finding{rule, c.template.Name, c.resource.ID, fmt.Sprintf(detail, args...)})
	}
}

// is wants a value under a path; nil wants nothing there.
func (c *checker) is(rule string, m Map, want any, path ...string) {
	if got := m.Get(path...); !reflect.DeepEqual(got, want) {
		c.must(false, rule, "%s is %v, want %v", strings.Join(path, "."), got, want)
	}
}

// Check judges templates by what is wrong in an account although CloudFormation would take it, and by the structure of their
// resources. The error joins a Finding for each fault. Generate returns nothing that does not pass.
func Check(templates []Template, pipeline stage.Pipeline, env string) error {
	var errs []error
	for _, t := range templates {
		text, err := t.YAML()
		if err != nil || len(text) >= MaxBytes || len(t.Resources) >= MaxResources {
			errs = append(errs, Finding{"size", t.Name, "template", fmt.Sprintf("%d bytes, %d resources, %v", len(text), len(t.Resources), err)})
		}
	}
	return errors.Join(append(errs, judge(templates, pipeline, env))...)
}

// judge is Check but for the size.
func judge(templates []Template, pipeline stage.Pipeline, env string) error {
	stages, err := pipeline.Ordered()
	if err != nil {
		return err
	}
	c := &checker{plan: plan{env: env, stages: stages, all: pipeline}, settings: map[string]stage.Settings{}}
	for _, s := range stages {
		if c.settings[s.Name], err = pipeline.Settings(env, s.Name); err != nil {
			return err
		}
	}
	if c.manifest, err = c.hash(); err != nil {
		return err
	}
	for _, t := range templates {
		c.template, c.resource = t, Resource{ID: "template"}
		c.whole()
		for _, r := range t.Resources {
			c.resource = r
			c.structure()
			c.references(r.Properties)
			c.tagged(r.Properties)
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
	"AWS::CloudWatch::Dashboard":                  (*checker).board,
	"AWS::ECS::TaskDefinition":                    (*checker).task,
	"AWS::ECS::Service":                           (*checker).service,
	"AWS::ECS::Cluster":                           (*checker).clusterRules,
	"AWS::ApplicationAutoScaling::ScalableTarget": (*checker).bounds,
	"AWS::ApplicationAutoScaling::ScalingPolicy":  (*checker).policy,
	"AWS::IAM::Role":                              (*checker).roleRules,
	"AWS::Logs::LogGroup":                         (*checker).logs,
	"AWS::S3::Bucket":                             (*checker).bucketRules,
	"AWS::S3::BucketPolicy":                       (*checker).bucketPolicy,
	"AWS::SNS::Topic":                             (*checker).topicRules,
	"AWS::SNS::TopicPolicy":                       (*checker).topicPolicy,
	"AWS::SNS::Subscription":                      (*checker).subscription,
	"AWS::Budgets::Budget":                        (*checker).budgetRules,
	"AWS::ECR::Repository":                        (*checker).repositoryRules,
	"AWS::SSM::Parameter":                         (*checker).switchRules,
	"AWS::EC2::SecurityGroup":                     (*checker).securityGroup,
	"AWS::EC2::VPCEndpoint":                       (*checker).endpoint,
	"AWS::RDS::DBInstance":                        (*checker).databaseRules,
	"AWS::RDS::DBSubnetGroup":                     (*checker).databaseSubnets,
	"AWS::SecretsManager::Secret":                 (*checker).secretRules,
	"AWS::ElasticLoadBalancingV2::LoadBalancer":   (*checker).balancer,
	"AWS::ElasticLoadBalancingV2::TargetGroup":    (*checker).targetGroup,
	"AWS::ElasticLoadBalancingV2::Listener":       (*checker).listener,
}

func (c *checker) whole() {
	for _, id := range c.required() {
		_, ok := c.template.Resource(id)
		c.must(ok, "missing", "there is no %s", id)
	}
	for _, name := range c.outputs() {
		value, _ := c.template.Outputs.value(name).(Map)
		c.must(value.Get("Value") != nil, "outputs", "there is no output %s", name)
	}
	c.parameters()
	if c.template.Name == migration {
		return // runs whatever the manifest says
	}
	c.must(strings.HasSuffix(c.template.Description, c.hashOf()), "manifest-hash", "the description does not end with the manifest's hash")
}

// hashOf is the hash that the template's resources must have.
func (c *checker) hashOf() string {
	if s, ok := c.stage(); ok {
		return c.settings[s.Name].Hash()
	}
	return c.manifest
}

// required are the resources that a template must have: without them nothing else would be missed.
func (c *checker) required() []string {
	service := []string{"Logs", "ExecutionRole", "TaskDefinition"}
	var ids []string
	switch c.template.Name {
	case "shared":
		ids = []string{"Cluster", "KillSwitch", "Repository", "Bucket", "BucketPolicy", "Page", "PagePolicy", "PageSubscription", "Inform", "InformPolicy", "InformSubscription",
			"Budget", "Dashboard", "TaskGroup", "LoadBalancerGroup", "DatabaseGroup", "Database", "DatabasePassword", "DatabaseUrl", "DatabaseSubnets", "EndpointGroup", "EndpointS3"}
		for _, s := range endpointServices {
			ids = append(ids, "Endpoint"+endpointID(s))
		}
	case "queues":
		for _, s := range c.stages {
			id := logical(s.Name)
			ids = append(ids, id+"Queue", id+"DLQ", id+"QueuePolicy", id+"DLQPolicy")
		}
	case migration:
		ids = service
	case server:
		ids = slices.Concat(service, []string{"TaskRole", "Service", "LoadBalancer", "Targets", "Listener", logical(stage.AlarmServerDown)})
		for _, a := range stage.ServerAlarms() {
			ids = append(ids, logical(a.Name))
		}
	default:
		s, _ := c.stage()
		ids = slices.Concat(service, []string{"TaskRole", "Service", "ScalableTarget", "Scaling", logical(stage.AlarmBroken), logical(stage.AlarmAttention)})
		for _, a := range append(s.Alarms(), s.Paused()) {
			ids = append(ids, logical(a.Name))
		}
	}
	return ids
}

// outputs are what people, the deploy script and other stacks ask a stack for.
func (c *checker) outputs() []string {
	switch c.template.Name {
	case "shared":
		return []string{"SecurityGroup", "LoadBalancerSecurityGroup", "DatabaseSecret", "Repository", "Bucket", "Dashboard", "Manifest"}
	case "queues":
		var names []string
		for _, s := range c.stages {
			names = append(names, logical(s.Name)+"QueueUrl", logical(s.Name)+"DLQArn")
		}
		return names
	case migration:
		return []string{"TaskDefinition"}
	}
	return []string{"TaskDefinition", "Manifest"}
}

// parameters are held to what a careless deployment must not change.
func (c *checker) parameters() {
	p := c.template.Parameters
	if p.value("Image") != nil {
		c.is("image-digest", p, ".+@sha256:[0-9a-f]{64}", "Image", "AllowedPattern")
		c.is("image-digest", p, nil, "Image", "Default")
	}
	if p.value("PublicIp") != nil {
		c.is("private-network", p, "DISABLED", "PublicIp", "Default")
	}
	if p.value("ExistingDatabaseSecret") != nil {
		c.is("endpoints", p, "false", "Endpoints", "Default")
	}
}

// stage is the one that the template is of.
func (c *checker) stage() (stage.Stage, bool) {
	name, ok := strings.CutPrefix(c.template.Name, "stage-")
	if !ok {
		return stage.Stage{}, false
	}
	return c.all.Stage(name)
}

// owner is what the tag "stage" of the template's resources says; empty where it says none. A queue's is by its name.
func (c *checker) owner() string {
	if s, ok := c.stage(); ok {
		return s.Name
	}
	if c.template.Name == server || c.template.Name == migration {
		return c.template.Name
	}
	for _, s := range c.stages {
		if id := logical(s.Name); c.template.Name == "queues" && (c.resource.ID == id+"Queue" || c.resource.ID == id+"DLQ") {
			return s.Name
		}
	}
	return ""
}

// tagged wants the four tags on everything that takes them.
func (c *checker) tagged(m Map) {
	if _, takes := schema()[c.resource.Type].Props["Tags"]; !takes {
		return
	}
	want := map[string]any{"app": "stagefleet", "env": c.env, "owner": Ref("Owner")}
	if name := c.owner(); name != "" {
		want["stage"] = name
	}
	for key, value := range want {
		got := m.Get("Tags", key) // of a parameter, whose tags are a map
		tags, _ := m.Get("Tags").(List)
		for _, t := range tags {
			if entry, ok := t.(Map); ok && entry.Get("Key") == key {
				got = entry.Get("Value")
			}
		}
		c.must(got == value, "tags", "tag %s is %v, want %v", key, got, value)
	}
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
	c.must(resource || pseudo[name] || c.template.Parameters.value(name) != nil, "reference", "there is no %s", name)
}

// pseudo are the parameters that CloudFormation gives.
var pseudo = map[string]bool{"AWS::AccountId": true, "AWS::Region": true, "AWS::Partition": true, "AWS::NoValue": true}

// statementsOf are the statements of a policy document; of one that depends on a condition the one that allows something.
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

// kept wants a resource to outlive its stack.
func (c *checker) kept(rule string) { c.must(c.resource.Keep, rule, "it goes with its stack") }

// only wants no other property of the resource than those named.
func (c *checker) only(rule string, m Map, names ...string) {
	for _, p := range m {
		c.must(p.Value == nil || slices.Contains(names, p.Key), rule, "%s says %v, which nobody has asked for", p.Key, p.Value)
	}
}
