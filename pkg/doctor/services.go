package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// servicesPerCall is the bound of DescribeServices (Amazon ECS API Reference).
const servicesPerCall = 10

// liveService is a service that was seen.
type liveService struct {
	types.Service
	role    string // ARN of the task role
	starter string // ARN of the role that starts its tasks
}

func (l *look) cluster() string { return "stagefleet-" + l.Env }

func (l *look) tasks(ctx context.Context) {
	if !l.clusterSeen(ctx) {
		return
	}
	wanted := l.resources("AWS::ECS::Service")
	for batch := range slices.Chunk(wanted, servicesPerCall) {
		in := &ecs.DescribeServicesInput{Cluster: aws.String(l.cluster()), Include: []types.ServiceField{types.ServiceFieldTags}}
		for _, w := range batch {
			in.Services = append(in.Services, w.text("ServiceName"))
		}
		out, err := l.Account.Services.DescribeServices(ctx, in)
		if err != nil {
			l.unseen(PartServices, "services "+strings.Join(in.Services, ", "), err)
			continue
		}
		for _, w := range batch {
			l.service(ctx, w, out.Services)
		}
	}
}

// clusterSeen compares the cluster; without it there is nothing else to see.
func (l *look) clusterSeen(ctx context.Context) bool {
	w := l.resources("AWS::ECS::Cluster")[0]
	out, err := l.Account.Services.DescribeClusters(ctx, &ecs.DescribeClustersInput{
		Clusters: []string{l.cluster()}, Include: []types.ClusterField{types.ClusterFieldSettings, types.ClusterFieldTags},
	})
	if err != nil {
		l.unseen(PartServices, "cluster "+l.cluster(), err)
		return false
	}
	if len(out.Clusters) == 0 || aws.ToString(out.Clusters[0].Status) != "ACTIVE" {
		l.missing(PartServices, w, "cluster "+l.cluster(), l.restore(w.stack))
		return false
	}
	found := tree(out.Clusters[0]).(map[string]any)
	found["ClusterSettings"] = found["Settings"]
	l.compare(PartServices, w, "cluster "+l.cluster(), found, func(d difference) string { return l.mendCluster(w, d) })
	return true
}

func (l *look) service(ctx context.Context, w wanted, found []types.Service) {
	name := w.text("ServiceName")
	i := slices.IndexFunc(found, func(s types.Service) bool {
		return aws.ToString(s.ServiceName) == name && aws.ToString(s.Status) == "ACTIVE"
	})
	if i < 0 {
		l.missing(PartServices, w, "service "+name, l.restore(w.stack))
		return
	}
	live := &liveService{Service: found[i]}
	l.services[name] = live
	l.compare(PartServices, w, "service "+name, tree(found[i]), func(d difference) string { return l.mendService(w, name, d) })
	l.capacity(w, name, live)
	l.taskDefinition(ctx, w, name, live)
}

// capacity looks at how many tasks are desired: scaling keeps a stage's between its bounds, and people must too. Of the server,
// which nothing scales, the template says how many: somebody may have stopped it, and its alarm does not ring for that.
func (l *look) capacity(w wanted, name string, live *liveService) {
	least, _ := w.properties["DesiredCount"].(int)
	most := least
	if s, ok := l.Pipeline.Stage(name); ok {
		least, most = s.Profile.MinTasks, s.Profile.MaxTasks
	}
	nearest := min(max(int(live.DesiredCount), least), most)
	if nearest == int(live.DesiredCount) {
		return
	}
	expected := fmt.Sprint(least)
	if most > least {
		expected += fmt.Sprintf(" to %d", most)
	}
	l.find(Finding{Part: PartServices, Resource: "service " + name, Field: "DesiredCount",
		Expected: expected, Found: fmt.Sprint(live.DesiredCount), Why: reason("AWS::ECS::Service", "DesiredCount"),
		Mend: fmt.Sprintf("aws ecs update-service --cluster %s --service %s --desired-count %d", l.cluster(), name, nearest)})
}

// taskDefinition compares the definition that the service uses, and remembers its role.
func (l *look) taskDefinition(ctx context.Context, service wanted, name string, live *liveService) {
	all := l.resources("AWS::ECS::TaskDefinition")
	w := all[slices.IndexFunc(all, func(w wanted) bool { return w.stack == service.stack })]
	resource := "task definition " + shortARN(aws.ToString(live.TaskDefinition))
	out, err := l.Account.Services.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{
		TaskDefinition: live.TaskDefinition, Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags},
	})
	if err == nil && out.TaskDefinition == nil {
		err = errors.New("ECS's answer was empty")
	}
	if err != nil {
		l.unseen(PartServices, resource, err)
		return
	}
	live.role, live.starter = aws.ToString(out.TaskDefinition.TaskRoleArn), aws.ToString(out.TaskDefinition.ExecutionRoleArn)
	found := tree(out.TaskDefinition).(map[string]any)
	found["Tags"] = tree(out.Tags)
	l.compare(PartServices, w, resource, found, func(d difference) string { return l.mendTaskDefinition(w, name, live, d) })
}

// shortARN is what an ARN names.
func shortARN(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }
