#!/bin/sh
# {{.Generated}}
#
# Deploys one stack, or the stages' all. The shared stack's outputs are handed on to the others.
#
#   deploy.sh shared  Vpc=vpc-... Subnets=subnet-...,subnet-...  [more parameters of the stack]
#   deploy.sh queues
#   deploy.sh migrate IMAGE          brings the record's schema up to date, in a task of its own
#   deploy.sh server  IMAGE          [parameters]
#   deploy.sh stage NAME IMAGE       [parameters]
#
# IMAGE is a digest: REPOSITORY@sha256:... Set VPC and SUBNETS for all but shared and queues, AWS_REGION and AWS_PROFILE as
# for the aws command, which it needs in version 2. PUBLIC_IP=ENABLED is for public subnets.
set -eu
cd "$(dirname "$0")"
env={{.Env}}

stack() {
	name=$1
	shift
	aws cloudformation deploy --stack-name "stagefleet-$env-$name" --template-file "$name.yaml" \
		--capabilities CAPABILITY_IAM --no-fail-on-empty-changeset \
		--tags app=stagefleet env="$env" ${1+--parameter-overrides "$@"}
}

output() {
	aws cloudformation describe-stacks --stack-name "stagefleet-$env-$1" --query "Stacks[0].Outputs[?OutputKey=='$2'].OutputValue" --output text
}

# surroundings are the parameters that server and stages have in common.
service() {
	name=$1 image=$2
	shift 2
	stack "$name" Image="$image" Subnets="${SUBNETS:?is not set: subnets, comma-separated}" \
		PublicIp="${PUBLIC_IP:-DISABLED}" SecurityGroup="$(output shared SecurityGroup)" DatabaseSecret="$(output shared DatabaseSecret)" "$@"
}

case "${1:-}" in
shared)
	shift
	stack shared "$@"
	;;
queues)
	stack queues
	;;
server)
	image=${2:?is missing: the image}
	shift 2
	service server "$image" Vpc="${VPC:?is not set}" LoadBalancerSecurityGroup="$(output shared LoadBalancerSecurityGroup)" "$@"
	;;
stage)
	name=${2:?is missing: one of{{.Stages}}} image=${3:?is missing: the image}
	shift 3
	service "stage-$name" "$image" "$@"
	;;
migrate)
	stack migrate Image="${2:?is missing: the image of the server}" DatabaseSecret="$(output shared DatabaseSecret)"
	task=$(aws ecs run-task --cluster "stagefleet-$env" --launch-type FARGATE --task-definition "$(output migrate TaskDefinition)" \
		--network-configuration "awsvpcConfiguration={subnets=[${SUBNETS:?is not set}],securityGroups=[$(output shared SecurityGroup)],assignPublicIp=${PUBLIC_IP:-DISABLED}}" \
		--query 'tasks[0].taskArn' --output text)
	aws ecs wait tasks-stopped --cluster "stagefleet-$env" --tasks "$task"
	code=$(aws ecs describe-tasks --cluster "stagefleet-$env" --tasks "$task" --query 'tasks[0].containers[0].exitCode' --output text)
	echo "migrate ended with exit code $code; its words are in the log group /stagefleet/$env/migrate"
	[ "$code" = 0 ]
	;;
*)
	sed -n '4,12s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
