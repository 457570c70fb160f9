package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/stagefleet/stagefleet/pkg/infra"
)

// forbidden are actions that no task needs, each of them the way to a loss.
var forbidden = []string{
	"sqs:DeleteQueue", "sqs:PurgeQueue", "sqs:SetQueueAttributes", "s3:DeleteObject", "s3:PutBucketPolicy",
	"ssm:PutParameter", "ecs:UpdateService", "secretsmanager:GetSecretValue", "iam:PassRole",
}

// simulationPages bounds the answer to one question: a thousand results a page.
const simulationPages = 5

// pair is one thing that a role might do.
type pair struct{ action, resource string }

// permissions compares who may take each role, and asks IAM what each task role may do with its own things and with those of
// all other stages.
func (l *look) permissions(ctx context.Context) {
	resources := l.examples()
	live, err := l.liveRoles(ctx)
	if err != nil {
		l.unseen(PartPermissions, "who may take the roles", err)
	}
	services := l.resources("AWS::ECS::Service")
	for _, w := range l.resources("AWS::IAM::Role") {
		i := slices.IndexFunc(services, func(s wanted) bool { return s.stack == w.stack })
		if i < 0 {
			continue // of a task that runs once: nothing says which role it had
		}
		name := services[i].text("ServiceName")
		arn := l.roleOf(name, w.id)
		if arn == "" {
			l.unseen(PartPermissions, w.id+" of "+name, errors.New("which role it is was not seen: its service or task definition is missing, unseen or skipped"))
			continue
		}
		if live != nil {
			l.trust(w, arn, live[arn])
		}
		if w.id == "TaskRole" {
			l.role(ctx, w, arn, resources)
		}
	}
}

// roleOf is the ARN of a role of a service, as its task definition names it; "" if that was not seen.
func (l *look) roleOf(service, id string) string {
	live := l.services[service]
	switch {
	case live == nil:
		return ""
	case id == "TaskRole":
		return live.role
	}
	return live.starter
}

// rolePages bounds the listing: a thousand roles a page.
const rolePages = 5

// liveRoles are the roles of the environment by their ARNs.
func (l *look) liveRoles(ctx context.Context) (map[string]map[string]any, error) {
	in := &iam.ListRolesInput{PathPrefix: aws.String(infra.RolePath(l.Env)), MaxItems: aws.Int32(1000)}
	found := map[string]map[string]any{}
	for range rolePages {
		out, err := l.Account.Permissions.ListRoles(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range out.Roles {
			role := tree(r).(map[string]any)
			if role["AssumeRolePolicyDocument"], err = readDocument(aws.ToString(r.AssumeRolePolicyDocument)); err != nil {
				return nil, fmt.Errorf("role %s: %w", aws.ToString(r.RoleName), err)
			}
			found[aws.ToString(r.Arn)] = role
		}
		if in.Marker = out.Marker; !out.IsTruncated || in.Marker == nil {
			break
		}
	}
	return found, nil
}

// readDocument reads a policy as IAM gives it: in JSON, with the escapes of a URL.
func readDocument(text string) (any, error) {
	plain, err := url.QueryUnescape(text)
	if err != nil {
		return nil, fmt.Errorf("read its trust policy: %w", err)
	}
	var document any
	if err := json.Unmarshal([]byte(plain), &document); err != nil {
		return nil, fmt.Errorf("read its trust policy: %w", err)
	}
	return normal(document), nil
}

// trust compares who may take a role.
func (l *look) trust(w wanted, arn string, live map[string]any) {
	if live == nil {
		l.missing(PartPermissions, w, "role "+shortARN(arn), l.restore(w.stack))
		return
	}
	l.compare(PartPermissions, w, "role "+shortARN(arn), live, func(difference) string { return mendTrust(w, shortARN(arn)) })
}

func (l *look) role(ctx context.Context, w wanted, arn string, resources []string) {
	grants := grantsOf(w)
	actions := slices.Clone(forbidden)
	for _, g := range grants {
		actions = append(actions, g.actions...)
	}
	slices.Sort(actions)
	actions = slices.Compact(actions)
	decisions, err := l.simulate(ctx, arn, actions, resources)
	if err != nil {
		l.unseen(PartPermissions, "role "+shortARN(arn), err)
		return
	}
	l.report.Looked++
	for _, action := range actions {
		lacking, excess := []string{}, []string{}
		for _, resource := range resources {
			decision, asked := decisions[pair{action, resource}]
			switch may := granted(grants, action, resource); {
			case !asked:
				lacking = append(lacking, resource+" (no answer)")
			case may && decision != types.PolicyEvaluationDecisionTypeAllowed:
				lacking = append(lacking, resource)
			case !may && decision == types.PolicyEvaluationDecisionTypeAllowed:
				excess = append(excess, resource)
			}
		}
		l.permission(w, arn, action, "allowed", "denied", lacking)
		l.permission(w, arn, action, "denied", "allowed", excess)
	}
}

func (l *look) permission(w wanted, arn, action, expected, found string, resources []string) {
	if len(resources) == 0 {
		return
	}
	on := resources[0]
	if more := len(resources) - 1; more > 0 {
		on += fmt.Sprintf(" and %d more", more)
	}
	why := "without it its tasks cannot do their work"
	mend := mendRole(w, shortARN(arn))
	if expected == "denied" {
		why = "a fault or a break-in of one stage would reach what is not its own"
		mend += "; aws iam list-attached-role-policies --role-name " + shortARN(arn)
	}
	l.find(Finding{Part: PartPermissions, Resource: "role " + shortARN(arn), Field: action, Expected: expected + " on " + on, Found: found, Why: why, Mend: mend})
}

// simulate asks for every action on every resource. IAM gives one result per action with a decision for each resource in
// it; the result's own decision is the strictest of them (IAM API Reference, EvaluationResult).
func (l *look) simulate(ctx context.Context, arn string, actions, resources []string) (map[pair]types.PolicyEvaluationDecisionType, error) {
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &arn, ActionNames: actions, ResourceArns: resources, MaxItems: aws.Int32(1000)}
	decisions := map[pair]types.PolicyEvaluationDecisionType{}
	for range simulationPages {
		out, err := l.Account.Permissions.SimulatePrincipalPolicy(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range out.EvaluationResults {
			action := aws.ToString(r.EvalActionName)
			if len(r.ResourceSpecificResults) == 0 {
				decisions[pair{action, aws.ToString(r.EvalResourceName)}] = r.EvalDecision
			}
			for _, one := range r.ResourceSpecificResults {
				decisions[pair{action, aws.ToString(one.EvalResourceName)}] = one.EvalResourceDecision
			}
		}
		if in.Marker = out.Marker; !out.IsTruncated || in.Marker == nil {
			break
		}
	}
	return decisions, nil
}

// grant is one statement of a role's policy.
type grant struct{ actions, resources []string }

func grantsOf(role wanted) []grant {
	var all []grant
	policies, _ := role.properties["Policies"].([]any)
	for _, p := range policies {
		document, _ := p.(map[string]any)["PolicyDocument"].(map[string]any)
		statements, _ := document["Statement"].([]any)
		for _, s := range statements {
			m, _ := s.(map[string]any)
			all = append(all, grant{texts(m["Action"]), texts(m["Resource"])})
		}
	}
	return all
}

func texts(v any) []string {
	var all []string
	for _, item := range listed(v) {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func granted(grants []grant, action, resource string) bool {
	return slices.ContainsFunc(grants, func(g grant) bool {
		return slices.Contains(g.actions, action) && slices.ContainsFunc(g.resources, func(p string) bool { return matches(p, resource) })
	})
}

// matches says whether a resource matches a pattern of a policy, in which an asterisk is any text.
func matches(pattern, resource string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == resource
	}
	rest, ok := strings.CutPrefix(resource, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// examples are one of everything that the roles of all stages name, with "example" where a pattern has an asterisk, and
// two that none may touch.
func (l *look) examples() []string {
	seen := map[string]bool{
		l.arn("ssm", "parameter/another/fleet/enabled"): true,
		l.arn("ecs", "task/another-cluster/example"):    true,
	}
	for _, w := range l.resources("AWS::IAM::Role") {
		if w.id != "TaskRole" {
			continue
		}
		for _, g := range grantsOf(w) {
			for _, r := range g.resources {
				seen[strings.ReplaceAll(r, "*", "example")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (l *look) arn(service, resource string) string {
	return "arn:" + l.place.partition + ":" + service + ":" + l.place.region + ":" + l.place.account + ":" + resource
}
