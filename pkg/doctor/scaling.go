package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
)

// targetsPerCall is the bound of DescribeScalableTargets, and policyPages that of one service's policies, ten a page
// (Application Auto Scaling API Reference).
const (
	targetsPerCall = 50
	policyPages    = 5
)

func (l *look) scaling(ctx context.Context) {
	policies := l.resources("AWS::ApplicationAutoScaling::ScalingPolicy")
	for batch := range slices.Chunk(l.resources("AWS::ApplicationAutoScaling::ScalableTarget"), targetsPerCall) {
		in := &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: types.ServiceNamespaceEcs}
		for _, w := range batch {
			in.ResourceIds = append(in.ResourceIds, w.text("ResourceId"))
		}
		out, err := l.Account.Scaling.DescribeScalableTargets(ctx, in)
		if err != nil {
			l.unseen(PartScaling, "scalable targets", err)
			continue
		}
		for _, w := range batch {
			id := w.text("ResourceId")
			i := slices.IndexFunc(out.ScalableTargets, func(t types.ScalableTarget) bool { return aws.ToString(t.ResourceId) == id })
			if i < 0 {
				l.missing(PartScaling, w, "scaling of "+id, mendTarget(w))
				continue
			}
			l.compare(PartScaling, w, "scaling of "+id, tree(out.ScalableTargets[i]), func(difference) string { return mendTarget(w) })
			p := policies[slices.IndexFunc(policies, func(p wanted) bool { return p.stack == w.stack })]
			l.policies(ctx, p, id)
		}
	}
}

// policies compares the one policy of a service, and finds others: two policies pull at the same number.
func (l *look) policies(ctx context.Context, w wanted, id string) {
	found, err := l.livePolicies(ctx, id)
	if err != nil {
		l.unseen(PartScaling, "policies of "+id, err)
		return
	}
	name := w.text("PolicyName")
	seen := false
	for _, p := range found {
		if aws.ToString(p.PolicyName) == name {
			seen = true
			l.compare(PartScaling, w, "policy "+name, tree(p), func(difference) string { return mendPolicy(w, id) })
			continue
		}
		l.find(Finding{Part: PartScaling, Resource: "policy " + aws.ToString(p.PolicyName) + " of " + id, Field: "PolicyName",
			Expected: "only " + name, Found: aws.ToString(p.PolicyName), Why: reason(w.kind, "PolicyName"),
			Mend: fmt.Sprintf("aws application-autoscaling delete-scaling-policy --service-namespace ecs --scalable-dimension ecs:service:DesiredCount --resource-id %s --policy-name %s",
				id, quote(aws.ToString(p.PolicyName)))})
	}
	if !seen {
		l.find(Finding{Part: PartScaling, Resource: "policy " + name, Expected: "exists", Found: "missing", Why: reason(w.kind, ""), Mend: mendPolicy(w, id)})
	}
}

func (l *look) livePolicies(ctx context.Context, id string) ([]types.ScalingPolicy, error) {
	in := &applicationautoscaling.DescribeScalingPoliciesInput{ServiceNamespace: types.ServiceNamespaceEcs, ResourceId: &id}
	var all []types.ScalingPolicy
	for range policyPages {
		out, err := l.Account.Scaling.DescribeScalingPolicies(ctx, in)
		if err != nil {
			return nil, err
		}
		all = append(all, out.ScalingPolicies...)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return all, nil
}
