package infra

import (
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// shared is the stack that all others need: the cluster, the network's rules, who is told, the record, the objects, the
// images, the kill switch, the budget and the dashboard.
func (p plan) shared() (Template, error) {
	hash, err := p.hash()
	if err != nil {
		return Template{}, err
	}
	t := Template{
		Name: "shared", Description: fmt.Sprintf("Stagefleet %s: what all stacks share. Manifest %s", p.env, hash),
		Parameters: Map{
			parameter("Vpc", "AWS::EC2::VPC::Id", "The VPC.", nil),
			parameter("Subnets", "List<AWS::EC2::Subnet::Id>", "Subnets of the database and the endpoints, in two zones at least.", nil),
			text("RouteTable", "The subnets' route table, if Endpoints is true: the S3 endpoint goes there."),
			choice("Endpoints", "true makes VPC endpoints, for subnets without another way to the AWS APIs; they cost by the hour.", "false", "true", "false"),
			text("ExistingDatabaseSecret", "ARN of a secret whose value is a postgres:// URL; empty: a database is made."),
			parameter("DatabaseClass", "String", "Size of the database that is made.", "db.t4g.medium"),
			parameter("DatabaseVersion", "String", "PostgreSQL's version; RDS makes none of those that it no longer sells: aws rds describe-db-engine-versions --engine postgres.", databaseEngine),
			choice("DatabaseMultiAz", "true keeps a standby of the database in a second zone.", "false", "true", "false"),
			text("PageEmail", "Address that is told of pages; empty: subscribe by hand."),
			text("InformEmail", "Address that is told of the rest; empty: subscribe by hand."),
			parameter("MonthlyBudget", "Number", "US dollars a month, of which people are told at 80 % and when the forecast exceeds it.", 500),
			parameter("ObjectDays", "Number", "Days after which objects are deleted; 0 keeps them.", 0),
			owner(),
		},
		Conditions: Map{
			{"MakesDatabase", Equals{Ref("ExistingDatabaseSecret"), ""}},
			{"MakesEndpoints", Equals{Ref("Endpoints"), "true"}},
			given("PageEmail"), given("InformEmail"),
			{"ExpiresObjects", Not{Equals{Ref("ObjectDays"), 0}}},
		},
	}
	t.Resources = append(t.Resources, p.clusterOf(), p.killSwitch(), p.repository())
	t.Resources = append(t.Resources, p.securityGroups()...)
	t.Resources = append(t.Resources, p.telling()...)
	t.Resources = append(t.Resources, p.bucketOf()...)
	t.Resources = append(t.Resources, p.database()...)
	t.Resources = append(t.Resources, p.endpoints()...)
	t.Resources = append(t.Resources, p.budget())
	board, err := p.dashboard()
	if err != nil {
		return Template{}, err
	}
	t.Resources = append(t.Resources, board)
	t.Outputs = Map{
		{"SecurityGroup", Map{{"Value", GetAtt("TaskGroup.GroupId")}}},
		{"LoadBalancerSecurityGroup", Map{{"Value", GetAtt("LoadBalancerGroup.GroupId")}}},
		{"DatabaseSecret", Map{{"Value", If{"MakesDatabase", Ref("DatabaseUrl"), Ref("ExistingDatabaseSecret")}}}},
		{"Repository", Map{{"Value", GetAtt("Repository.RepositoryUri")}}},
		{"Bucket", Map{{"Value", Ref("Bucket")}}},
		{"Dashboard", Map{{"Value", Sub("https://${AWS::Region}.console.aws.amazon.com/cloudwatch/home#dashboards:name=" + p.cluster())}}},
		{"Manifest", Map{{"Value", hash}}},
	}
	return t, nil
}

func choice(name, description, fallback string, values ...string) Prop {
	return parameter(name, "String", description, fallback, Prop{"AllowedValues", list(values)})
}

// clusterOf counts running tasks, which scaling needs and which costs; the two kinds of capacity are for the services to choose.
func (p plan) clusterOf() Resource {
	return Resource{ID: "Cluster", Type: "AWS::ECS::Cluster", Properties: Map{
		{"ClusterName", p.cluster()},
		{"CapacityProviders", List{"FARGATE", "FARGATE_SPOT"}},
		{"ClusterSettings", List{Map{{"Name", "containerInsights"}, {"Value", "enabled"}}}},
		{"Tags", p.tags("")},
	}}
}

func (p plan) killSwitch() Resource {
	return Resource{ID: "KillSwitch", Type: "AWS::SSM::Parameter", Properties: Map{
		{"Name", control.ParameterName(p.env)},
		{"Type", "String"},
		{"Value", "true"},
		{"Description", `Kill switch of the fleet: true, false, or {"all":true,"stages":{"NAME":false}}.`},
		{"Tags", Map{{"app", "stagefleet"}, {"env", p.env}, {"owner", Ref("Owner")}}},
	}}
}

func (p plan) repository() Resource {
	return Resource{ID: "Repository", Type: "AWS::ECR::Repository", Keep: true, Properties: Map{
		{"RepositoryName", p.cluster()},
		{"ImageTagMutability", "IMMUTABLE"},
		{"ImageScanningConfiguration", Map{{"ScanOnPush", true}}},
		{"EncryptionConfiguration", Map{{"EncryptionType", "AES256"}}},
		{"Tags", p.tags("")},
	}}
}

// securityGroups: tasks are asked by the load balancer alone, and ask over TLS, and the database.
func (p plan) securityGroups() []Resource {
	anywhere := Prop{"CidrIp", "0.0.0.0/0"}
	tcp := func(port int, more ...Prop) Map {
		return append(Map{{"IpProtocol", "tcp"}, {"FromPort", port}, {"ToPort", port}}, more...)
	}
	return []Resource{
		{ID: "TaskGroup", Type: "AWS::EC2::SecurityGroup", Properties: Map{
			{"GroupDescription", "Workers and server: out over TLS and to the database, in from the load balancer"},
			{"VpcId", Ref("Vpc")},
			{"SecurityGroupEgress", List{
				tcp(443, anywhere, Prop{"Description", "AWS APIs and providers"}),
				tcp(5432, anywhere, Prop{"Description", "the record"}),
			}},
			{"SecurityGroupIngress", List{tcp(apiPort, Prop{"SourceSecurityGroupId", GetAtt("LoadBalancerGroup.GroupId")}, Prop{"Description", "API"})}},
			{"Tags", p.tags("")},
		}},
		{ID: "LoadBalancerGroup", Type: "AWS::EC2::SecurityGroup", Properties: Map{
			{"GroupDescription", "Load balancer: TLS from the private networks, and to the server"},
			{"VpcId", Ref("Vpc")},
			{"SecurityGroupIngress", List{tcp(443, Prop{"CidrIp", "10.0.0.0/8"}), tcp(443, Prop{"CidrIp", "172.16.0.0/12"}), tcp(443, Prop{"CidrIp", "192.168.0.0/16"})}},
			{"SecurityGroupEgress", List{tcp(apiPort, Prop{"CidrIp", "0.0.0.0/0"})}},
			{"Tags", p.tags("")},
		}},
		{ID: "DatabaseGroup", Type: "AWS::EC2::SecurityGroup", Condition: "MakesDatabase", Properties: Map{
			{"GroupDescription", "Database: in from workers and server"},
			{"VpcId", Ref("Vpc")},
			{"SecurityGroupIngress", List{tcp(5432, Prop{"SourceSecurityGroupId", GetAtt("TaskGroup.GroupId")})}},
			{"Tags", p.tags("")},
		}},
	}
}

// telling makes the topics; only alarms and budgets of this account may publish to them.
func (p plan) telling() []Resource {
	var all []Resource
	for _, s := range []stage.Severity{stage.Page, stage.Inform} {
		id := upperFirst(topics[s])
		all = append(all,
			Resource{ID: id, Type: "AWS::SNS::Topic", Properties: Map{{"TopicName", p.name(topics[s])}, {"Tags", p.tags("")}}},
			Resource{ID: id + "Subscription", Type: "AWS::SNS::Subscription", Condition: "Has" + id + "Email", Properties: Map{
				{"TopicArn", Ref(id)}, {"Protocol", "email"}, {"Endpoint", Ref(id + "Email")},
			}},
			Resource{ID: id + "Policy", Type: "AWS::SNS::TopicPolicy", Properties: Map{
				{"Topics", List{Ref(id)}},
				{"PolicyDocument", document(
					Map{
						{"Sid", "OwnAlarms"}, {"Effect", "Allow"}, {"Principal", Map{{"Service", List{"cloudwatch.amazonaws.com", "budgets.amazonaws.com"}}}},
						{"Action", "sns:Publish"}, {"Resource", Ref(id)}, {"Condition", Map{{"StringEquals", Map{{"aws:SourceAccount", Ref("AWS::AccountId")}}}}},
					},
					Map{
						{"Sid", "TLSOnly"}, {"Effect", "Deny"}, {"Principal", "*"}, {"Action", "sns:Publish"}, {"Resource", Ref(id)}, {"Condition", insecure},
					}),
				},
			}})
	}
	return all
}

func (p plan) budget() Resource {
	told := func(kind string, percent int) Map {
		return Map{
			{"Notification", Map{{"NotificationType", kind}, {"ComparisonOperator", "GREATER_THAN"}, {"Threshold", percent}, {"ThresholdType", "PERCENTAGE"}}},
			{"Subscribers", List{Map{{"SubscriptionType", "SNS"}, {"Address", Ref("Inform")}}}},
		}
	}
	return Resource{ID: "Budget", Type: "AWS::Budgets::Budget", DependsOn: "InformPolicy", Properties: Map{
		{"Budget", Map{
			{"BudgetName", p.cluster()}, {"BudgetType", "COST"}, {"TimeUnit", "MONTHLY"},
			{"BudgetLimit", Map{{"Amount", Ref("MonthlyBudget")}, {"Unit", "USD"}}},
			{"CostFilters", Map{{"TagKeyValue", List{"user:env$" + p.env}}}},
		}},
		{"NotificationsWithSubscribers", List{told("ACTUAL", 80), told("FORECASTED", 100)}},
	}}
}
