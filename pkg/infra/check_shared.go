package infra

import (
	"reflect"
	"slices"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/control"
)

func (c *checker) clusterRules(m Map) {
	c.is("cluster", m, c.cluster(), "ClusterName")
	c.is("container-insights", m, List{Map{{"Name", "containerInsights"}, {"Value", "enabled"}}}, "ClusterSettings")
	c.is("cluster", m, List{"FARGATE", "FARGATE_SPOT"}, "CapacityProviders")
}

func (c *checker) switchRules(m Map) {
	c.is("kill-switch", m, control.ParameterName(c.env), "Name")
	c.is("kill-switch", m, "String", "Type")
	c.is("kill-switch", m, "true", "Value")
}

func (c *checker) repositoryRules(m Map) {
	c.is("repository", m, c.cluster(), "RepositoryName")
	c.is("repository", m, "IMMUTABLE", "ImageTagMutability")
	c.is("repository", m, true, "ImageScanningConfiguration", "ScanOnPush")
	c.is("repository", m, "AES256", "EncryptionConfiguration", "EncryptionType")
	c.kept("repository")
}

func (c *checker) bucketRules(b Map) {
	c.is("bucket-name", b, c.bucket(), "BucketName")
	for _, name := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
		c.is("bucket-private", b, true, "PublicAccessBlockConfiguration", name)
	}
	c.is("bucket-private", b, List{Map{{"ObjectOwnership", "BucketOwnerEnforced"}}}, "OwnershipControls", "Rules")
	c.is("bucket-encryption", b, List{Map{{"ServerSideEncryptionByDefault", Map{{"SSEAlgorithm", "AES256"}}}}}, "BucketEncryption", "ServerSideEncryptionConfiguration")
	c.kept("bucket-kept")
	unfinished := Map{{"Id", "unfinished-uploads"}, {"Status", "Enabled"}, {"AbortIncompleteMultipartUpload", Map{{"DaysAfterInitiation", 1}}}}
	old := If{"ExpiresObjects", Map{{"Id", "old-objects"}, {"Status", "Enabled"}, {"Prefix", ObjectPrefix + "/"}, {"ExpirationInDays", Ref("ObjectDays")}}, NoValue}
	c.is("bucket-lifecycle", b, List{unfinished, old}, "LifecycleConfiguration", "Rules")
}

func (c *checker) bucketPolicy(p Map) {
	c.is("tls-only", p, Ref("Bucket"), "Bucket")
	c.tlsOnly(p, "s3:*", List{GetAtt("Bucket.Arn"), Sub("${Bucket.Arn}/*")})
}

func (c *checker) topicRules(m Map) {
	c.is("topic-name", m, c.name(strings.ToLower(c.resource.ID)), "TopicName")
	c.is("topic-name", m, nil, "KmsMasterKeyId") // CloudWatch could not publish to it without a key policy
}

func (c *checker) subscription(m Map) {
	id := strings.TrimSuffix(c.resource.ID, "Subscription")
	c.is("topic-subscription", m, Ref(id), "TopicArn")
	c.is("topic-subscription", m, "email", "Protocol")
	c.is("topic-subscription", m, Ref(id+"Email"), "Endpoint")
}

// topicPolicy admits alarms and budgets of this account, over TLS.
func (c *checker) topicPolicy(p Map) {
	id := Ref(strings.TrimSuffix(c.resource.ID, "Policy"))
	c.is("topic-policy", p, List{id}, "Topics")
	c.is("topic-policy", p, "2012-10-17", "PolicyDocument", "Version")
	statements := statementsOf(p.Get("PolicyDocument"))
	all, _ := p.Get("PolicyDocument", "Statement").(List)
	c.must(len(all) == 2, "topic-policy", "%d statements, want 2", len(all))
	for i, s := range statements {
		if i == 1 {
			c.denies(s, "sns:Publish", id)
			continue
		}
		c.is("topic-policy", s, "Allow", "Effect")
		c.is("topic-policy", s, "sns:Publish", "Action")
		c.is("topic-policy", s, id, "Resource")
		c.is("topic-policy", s, Map{{"Service", List{"cloudwatch.amazonaws.com", "budgets.amazonaws.com"}}}, "Principal")
		c.is("topic-policy", s, Map{{"StringEquals", Map{{"aws:SourceAccount", Ref("AWS::AccountId")}}}}, "Condition")
	}
}

func (c *checker) budgetRules(m Map) {
	c.must(c.resource.DependsOn == "InformPolicy", "budget", "it is made before it may tell the topic")
	for name, want := range map[string]any{"BudgetName": c.cluster(), "BudgetType": "COST", "TimeUnit": "MONTHLY",
		"BudgetLimit": Map{{"Amount", Ref("MonthlyBudget")}, {"Unit", "USD"}}, "CostFilters": Map{{"TagKeyValue", List{"user:env$" + c.env}}}} {
		c.is("budget", m, want, "Budget", name)
	}
	told, _ := m.Get("NotificationsWithSubscribers").(List)
	var when []any
	for _, t := range told {
		n, _ := t.(Map)
		when = append(when, n.Get("Notification", "NotificationType"), n.Get("Notification", "ComparisonOperator"), n.Get("Notification", "Threshold"), n.Get("Notification", "ThresholdType"))
		c.is("budget", n, List{Map{{"SubscriptionType", "SNS"}, {"Address", Ref("Inform")}}}, "Subscribers")
	}
	c.must(reflect.DeepEqual(when, []any{"ACTUAL", "GREATER_THAN", 80, "PERCENTAGE", "FORECASTED", "GREATER_THAN", 100, "PERCENTAGE"}), "budget", "people are told at %v", when)
}

// securityGroup holds each group to whom it lets in and where it lets out.
func (c *checker) securityGroup(m Map) {
	rule := func(port int, more ...Prop) Map {
		return append(Map{{"IpProtocol", "tcp"}, {"FromPort", port}, {"ToPort", port}}, more...)
	}
	from := func(id string) Prop { return Prop{"SourceSecurityGroupId", GetAtt(id + ".GroupId")} }
	want := map[string]Map{
		"TaskGroup": {
			{"SecurityGroupIngress", List{rule(apiPort, from("LoadBalancerGroup"))}},
			{"SecurityGroupEgress", List{rule(443, Prop{"CidrIp", "0.0.0.0/0"}), rule(5432, Prop{"CidrIp", "0.0.0.0/0"})}},
		},
		"LoadBalancerGroup": {
			{"SecurityGroupIngress", List{rule(443, Prop{"CidrIp", "10.0.0.0/8"}), rule(443, Prop{"CidrIp", "172.16.0.0/12"}), rule(443, Prop{"CidrIp", "192.168.0.0/16"})}},
			{"SecurityGroupEgress", List{rule(apiPort, Prop{"CidrIp", "0.0.0.0/0"})}},
		},
		"DatabaseGroup": {{"SecurityGroupIngress", List{rule(5432, from("TaskGroup"))}}},
		"EndpointGroup": {{"SecurityGroupIngress", List{rule(443, from("TaskGroup"))}}},
	}[c.resource.ID]
	c.is("network", m, Ref("Vpc"), "VpcId")
	for _, side := range []string{"SecurityGroupIngress", "SecurityGroupEgress"} {
		var got List
		rules, _ := m.Get(side).(List)
		for _, r := range rules {
			one, _ := r.(Map)
			var plain Map
			for _, p := range one {
				if p.Key != "Description" {
					plain = append(plain, p)
				}
			}
			got = append(got, plain)
		}
		wanted, _ := want.Get(side).(List)
		c.must(reflect.DeepEqual(got, wanted), "network", "%s is %v, want %v", side, got, wanted)
	}
}

func (c *checker) endpoint(m Map) {
	c.must(c.resource.Condition == "MakesEndpoints", "endpoints", "it is made whoever wants it, and costs")
	c.is("endpoints", m, Ref("Vpc"), "VpcId")
	if c.resource.ID == "EndpointS3" {
		c.is("endpoints", m, "Gateway", "VpcEndpointType")
		c.is("endpoints", m, Sub("com.amazonaws.${AWS::Region}.s3"), "ServiceName")
		c.is("endpoints", m, List{Ref("RouteTable")}, "RouteTableIds")
		return
	}
	name, _ := m.Get("ServiceName").(Sub)
	service := strings.TrimPrefix(string(name), "com.amazonaws.${AWS::Region}.")
	c.must(slices.Contains(endpointServices, service) && "Endpoint"+endpointID(service) == c.resource.ID, "endpoints", "%s leads to %s", c.resource.ID, name)
	c.is("endpoints", m, "Interface", "VpcEndpointType")
	c.is("endpoints", m, true, "PrivateDnsEnabled")
	c.is("endpoints", m, Ref("Subnets"), "SubnetIds")
	c.is("endpoints", m, List{GetAtt("EndpointGroup.GroupId")}, "SecurityGroupIds")
}

const resolvedPassword = "{{resolve:secretsmanager:${DatabasePassword}:SecretString:password}}"

func (c *checker) databaseRules(m Map) {
	c.must(c.resource.Condition == "MakesDatabase" && c.resource.Snapshot, "database", "it is made beside another one, or goes without a snapshot")
	for name, want := range map[string]any{
		"DBInstanceIdentifier": c.cluster(), "Engine": "postgres", "EngineVersion": Ref("DatabaseVersion"), "DBInstanceClass": Ref("DatabaseClass"), "DBName": databaseName,
		"MasterUsername": databaseUser, "MasterUserPassword": Sub(resolvedPassword), "AllocatedStorage": itoa(databaseStorage), "MaxAllocatedStorage": storageLimit,
		"StorageType": "gp3", "StorageEncrypted": true, "MultiAZ": Ref("DatabaseMultiAz"), "PubliclyAccessible": false, "DBSubnetGroupName": Ref("DatabaseSubnets"),
		"VPCSecurityGroups": List{GetAtt("DatabaseGroup.GroupId")}, "BackupRetentionPeriod": backupDays, "CopyTagsToSnapshot": true, "DeletionProtection": true, "AutoMinorVersionUpgrade": true,
	} {
		c.is("database", m, want, name)
	}
}

func (c *checker) databaseSubnets(m Map) {
	c.is("database", m, Ref("Subnets"), "SubnetIds")
}

func (c *checker) secretRules(m Map) {
	if c.resource.ID == "DatabasePassword" {
		c.is("database-secret", m, "stagefleet/"+c.env+"/database-password", "Name")
		for name, want := range map[string]any{"SecretStringTemplate": `{"username":"fleet"}`, "GenerateStringKey": "password", "PasswordLength": 40, "ExcludePunctuation": true} { //nolint:gosec // a name, not a secret
			c.is("database-secret", m, want, "GenerateSecretString", name)
		}
		c.is("database-secret", m, nil, "SecretString")
		return
	}
	c.is("database-secret", m, "stagefleet/"+c.env+"/database-url", "Name")
	c.is("database-secret", m, Sub("postgres://fleet:"+resolvedPassword+"@${Database.Endpoint.Address}:${Database.Endpoint.Port}/fleet?sslmode=require"), "SecretString")
}

func (c *checker) balancer(m Map) {
	c.is("load-balancer", m, "internal", "Scheme")
	c.is("load-balancer", m, "application", "Type")
	c.is("load-balancer", m, Ref("Subnets"), "Subnets")
	c.is("load-balancer", m, List{Ref("LoadBalancerSecurityGroup")}, "SecurityGroups")
	c.is("load-balancer", m, List{
		Map{{"Key", "routing.http.drop_invalid_header_fields.enabled"}, {"Value", "true"}}, Map{{"Key", "idle_timeout.timeout_seconds"}, {"Value", "120"}},
	}, "LoadBalancerAttributes")
}

func (c *checker) targetGroup(m Map) {
	for name, want := range map[string]any{"VpcId": Ref("Vpc"), "TargetType": "ip", "Protocol": "HTTP", "Port": apiPort, "HealthCheckPath": "/healthz", "HealthCheckIntervalSeconds": 30,
		"HealthyThresholdCount": 2, "UnhealthyThresholdCount": 10,
		"TargetGroupAttributes": List{Map{{"Key", "deregistration_delay.timeout_seconds"}, {"Value", "30"}}}} {
		c.is("load-balancer", m, want, name)
	}
}

func (c *checker) listener(m Map) {
	for name, want := range map[string]any{"LoadBalancerArn": Ref("LoadBalancer"), "Protocol": "HTTPS", "Port": 443, "SslPolicy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
		"Certificates": List{Map{{"CertificateArn", Ref("Certificate")}}}, "DefaultActions": List{Map{{"Type", "forward"}, {"TargetGroupArn", Ref("Targets")}}}} {
		c.is("load-balancer", m, want, name)
	}
}
