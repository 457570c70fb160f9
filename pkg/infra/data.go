package infra

import "fmt"

// bucketOf is where recordings and results are. What a crash left half uploaded goes after a day.
func (p plan) bucketOf() []Resource {
	return []Resource{
		{ID: "Bucket", Type: "AWS::S3::Bucket", Keep: true, Properties: Map{
			{"BucketName", p.bucket()},
			{"BucketEncryption", Map{{"ServerSideEncryptionConfiguration", List{
				Map{{"ServerSideEncryptionByDefault", Map{{"SSEAlgorithm", "AES256"}}}},
			}}}},
			{"OwnershipControls", Map{{"Rules", List{Map{{"ObjectOwnership", "BucketOwnerEnforced"}}}}}},
			{"PublicAccessBlockConfiguration", Map{
				{"BlockPublicAcls", true}, {"BlockPublicPolicy", true}, {"IgnorePublicAcls", true}, {"RestrictPublicBuckets", true},
			}},
			{"LifecycleConfiguration", Map{{"Rules", List{
				Map{{"Id", "unfinished-uploads"}, {"Status", "Enabled"}, {"AbortIncompleteMultipartUpload", Map{{"DaysAfterInitiation", 1}}}},
				If{"ExpiresObjects", Map{{"Id", "old-objects"}, {"Status", "Enabled"}, {"Prefix", ObjectPrefix + "/"}, {"ExpirationInDays", Ref("ObjectDays")}}, NoValue},
			}}}},
			{"Tags", p.tags("")},
		}},
		{ID: "BucketPolicy", Type: "AWS::S3::BucketPolicy", Properties: Map{
			{"Bucket", Ref("Bucket")},
			{"PolicyDocument", document(Map{
				{"Sid", "TLSOnly"}, {"Effect", "Deny"}, {"Principal", "*"}, {"Action", "s3:*"},
				{"Resource", List{GetAtt("Bucket.Arn"), Sub("${Bucket.Arn}/*")}}, {"Condition", insecure},
			})},
		}},
	}
}

// The database that is made where none is given.
const (
	databaseEngine  = "17.7"
	databaseName    = "fleet"
	databaseUser    = "fleet"
	backupDays      = 14
	databaseStorage = 50  // GiB at first
	storageLimit    = 500 // GiB at most; it grows by itself
)

// database is an RDS instance, its password, and the URL that workers and server are given. The URL asks for TLS but not
// for the server's certificate, because the authority that signs it is not among those of the images.
func (p plan) database() []Resource {
	const made = "MakesDatabase"
	password := Sub("{{resolve:secretsmanager:${DatabasePassword}:SecretString:password}}")
	return []Resource{
		{ID: "DatabasePassword", Type: "AWS::SecretsManager::Secret", Condition: made, Properties: Map{
			{"Name", "stagefleet/" + p.env + "/database-password"},
			{"Description", "Password of the record's database"},
			{"GenerateSecretString", Map{
				{"SecretStringTemplate", fmt.Sprintf(`{"username":%q}`, databaseUser)}, {"GenerateStringKey", "password"},
				{"PasswordLength", 40}, {"ExcludePunctuation", true},
			}},
			{"Tags", p.tags("")},
		}},
		{ID: "DatabaseUrl", Type: "AWS::SecretsManager::Secret", Condition: made, Properties: Map{
			{"Name", "stagefleet/" + p.env + "/database-url"},
			{"Description", "URL of the record, as workers and server take it"},
			{"SecretString", Sub(fmt.Sprintf("postgres://%s:%s@${Database.Endpoint.Address}:${Database.Endpoint.Port}/%s?sslmode=require", databaseUser, password, databaseName))},
			{"Tags", p.tags("")},
		}},
		{ID: "DatabaseSubnets", Type: "AWS::RDS::DBSubnetGroup", Condition: made, Properties: Map{
			{"DBSubnetGroupDescription", "The record"}, {"SubnetIds", Ref("Subnets")}, {"Tags", p.tags("")},
		}},
		{ID: "Database", Type: "AWS::RDS::DBInstance", Condition: made, Snapshot: true, Properties: Map{
			{"DBInstanceIdentifier", p.cluster()},
			{"Engine", "postgres"},
			{"EngineVersion", Ref("DatabaseVersion")},
			{"DBInstanceClass", Ref("DatabaseClass")},
			{"DBName", databaseName},
			{"MasterUsername", databaseUser},
			{"MasterUserPassword", password},
			{"AllocatedStorage", itoa(databaseStorage)},
			{"MaxAllocatedStorage", storageLimit},
			{"StorageType", "gp3"},
			{"StorageEncrypted", true},
			{"MultiAZ", Ref("DatabaseMultiAz")},
			{"PubliclyAccessible", false},
			{"DBSubnetGroupName", Ref("DatabaseSubnets")},
			{"VPCSecurityGroups", List{GetAtt("DatabaseGroup.GroupId")}},
			{"BackupRetentionPeriod", backupDays},
			{"CopyTagsToSnapshot", true},
			{"DeletionProtection", true},
			{"AutoMinorVersionUpgrade", true},
			{"Tags", p.tags("")},
		}},
	}
}

// endpointServices are what tasks and those that start them call.
var endpointServices = []string{"sqs", "ssm", "logs", "secretsmanager", "ecs", "ecr.api", "ecr.dkr"}

// endpoints let subnets without a way out reach what tasks call. ECS is for task protection.
func (p plan) endpoints() []Resource {
	const made = "MakesEndpoints"
	all := []Resource{
		{ID: "EndpointGroup", Type: "AWS::EC2::SecurityGroup", Condition: made, Properties: Map{
			{"GroupDescription", "VPC endpoints: TLS from workers and server"},
			{"VpcId", Ref("Vpc")},
			{"SecurityGroupIngress", List{Map{
				{"IpProtocol", "tcp"}, {"FromPort", 443}, {"ToPort", 443}, {"SourceSecurityGroupId", GetAtt("TaskGroup.GroupId")},
			}}},
			{"Tags", p.tags("")},
		}},
		{ID: "EndpointS3", Type: "AWS::EC2::VPCEndpoint", Condition: made, Properties: Map{
			{"VpcId", Ref("Vpc")}, {"VpcEndpointType", "Gateway"}, {"ServiceName", Sub("com.amazonaws.${AWS::Region}.s3")}, {"RouteTableIds", List{Ref("RouteTable")}},
			{"Tags", p.tags("")},
		}},
	}
	for _, service := range endpointServices {
		all = append(all, Resource{ID: "Endpoint" + endpointID(service), Type: "AWS::EC2::VPCEndpoint", Condition: made, Properties: Map{
			{"VpcId", Ref("Vpc")}, {"VpcEndpointType", "Interface"}, {"ServiceName", Sub("com.amazonaws.${AWS::Region}." + service)},
			{"PrivateDnsEnabled", true}, {"SubnetIds", Ref("Subnets")}, {"SecurityGroupIds", List{GetAtt("EndpointGroup.GroupId")}},
			{"Tags", p.tags("")},
		}})
	}
	return all
}
