#!/bin/sh
# {{.Generated}}
#
# Deploys the stacks. Every step may be run again: what is as it should be stays. The first that fails ends the run with a
# sentence; mend it and say the same again.
#
#   deploy.sh shared  Vpc=vpc-... Subnets=subnet-...,subnet-...  [more parameters of the stack]
#   deploy.sh queues
#   deploy.sh release TAG            queues, schema, server and stages, in this order, from the images fleet-TAG and STAGE-TAG
#   deploy.sh migrate IMAGE          brings the record's schema up to date, in a task of its own
#   deploy.sh key                    makes the operator's first key, in a task like the last migration's, and shows it
#   deploy.sh server  IMAGE          [parameters]
#   deploy.sh stage NAME IMAGE       [parameters]
#   deploy.sh restore STACK          shows what would make the stack's resources what they were when it was last deployed
#
# IMAGE is a digest: REPOSITORY@sha256:... Set VPC and SUBNETS for all but shared and queues, AWS_REGION and AWS_PROFILE as
# for the aws command, which it needs in version 2. PUBLIC_IP=ENABLED is for public subnets, CERTIFICATE=ARN gives a release's
# server its load balancer, ARCHITECTURE=ARM64 is for images that were built on such a machine. DRY_RUN=1 changes nothing: it shows what would be called, and asks only for what it must know.
set -eu
cd "$(dirname "$0")"
env={{.Env}}

fail() {
	echo "deploy.sh: $*" >&2
	exit 1
}

# change runs what changes something, or shows it.
change() {
	if [ -n "${DRY_RUN:-}" ]; then
		echo "would run: $*" >&2
	else
		"$@"
	fi
}

stack() {
	name=$1
	shift
	echo "deploy.sh: stack stagefleet-$env-$name" >&2
	# What a first attempt that failed has left takes nothing but its end.
	status=$(aws cloudformation describe-stacks --stack-name "stagefleet-$env-$name" --query 'Stacks[0].StackStatus' --output text 2>/dev/null) || status=""
	case $status in
	ROLLBACK_COMPLETE)
		change aws cloudformation delete-stack --stack-name "stagefleet-$env-$name"
		change aws cloudformation wait stack-delete-complete --stack-name "stagefleet-$env-$name" || fail "what is left of the stack stagefleet-$env-$name cannot be deleted"
		;;
	ROLLBACK_FAILED | DELETE_FAILED)
		fail "the stack stagefleet-$env-$name could not be taken back; its events say why: aws cloudformation describe-stack-events --stack-name stagefleet-$env-$name. A database protects itself: aws rds modify-db-instance --db-instance-identifier stagefleet-$env --no-deletion-protection. Then: aws cloudformation delete-stack --stack-name stagefleet-$env-$name"
		;;
	esac
	change aws cloudformation deploy --stack-name "stagefleet-$env-$name" --template-file "$name.yaml" \
		--capabilities CAPABILITY_IAM --no-fail-on-empty-changeset \
		--tags app=stagefleet env="$env" ${1+--parameter-overrides "$@"} ||
		fail "the stack stagefleet-$env-$name was not deployed; its events say why: aws cloudformation describe-stack-events --stack-name stagefleet-$env-$name"
}

# output is what another stack says about itself.
output() {
	value=$(aws cloudformation describe-stacks --stack-name "stagefleet-$env-$1" --query "Stacks[0].Outputs[?OutputKey=='$2'].OutputValue" --output text) ||
		fail "the stack stagefleet-$env-$1 cannot be read; is it deployed? (deploy.sh $1)"
	case $value in
	"" | None) fail "the stack stagefleet-$env-$1 has no output $2; deploy it again from these templates" ;;
	esac
	echo "$value"
}

# image is the digest behind a tag of the fleet's repository.
image() {
	repository=$(output shared Repository)
	digest=$(aws ecr describe-images --repository-name "${repository#*/}" --image-ids imageTag="$1" --query 'imageDetails[0].imageDigest' --output text) ||
		fail "there is no image $repository:$1; push it first"
	echo "$repository@$digest"
}

# service deploys a stack with the parameters that server and stages have in common.
service() {
	name=$1 image=$2
	shift 2
	: "${SUBNETS:?is not set: subnets, comma-separated}"
	group=$(output shared SecurityGroup)
	secret=$(output shared DatabaseSecret)
	stack "$name" Image="$image" Subnets="$SUBNETS" PublicIp="${PUBLIC_IP:-DISABLED}" SecurityGroup="$group" DatabaseSecret="$secret" \
		${ARCHITECTURE:+Architecture="$ARCHITECTURE"} "$@"
}

server() {
	image=$1
	shift
	balancer=$(output shared LoadBalancerSecurityGroup)
	service server "$image" Vpc="${VPC:?is not set}" LoadBalancerSecurityGroup="$balancer" "$@"
}

# task runs the fleet's image to its end, with the words that are given in place of "migrate", and prints the task's identifier.
task() {
	overrides='{}'
	if [ $# -gt 0 ]; then
		overrides="{\"containerOverrides\":[{\"name\":\"migrate\",\"command\":[$(printf '"%s",' "$@" | sed 's/,$//')]}]}"
	fi
	: "${SUBNETS:?is not set: subnets, comma-separated}"
	definition=$(output migrate TaskDefinition)
	group=$(output shared SecurityGroup)
	arn=$(aws ecs run-task --cluster "stagefleet-$env" --launch-type FARGATE --task-definition "$definition" --overrides "$overrides" \
		--network-configuration "awsvpcConfiguration={subnets=[$SUBNETS],securityGroups=[$group],assignPublicIp=${PUBLIC_IP:-DISABLED}}" \
		--query 'tasks[0].taskArn' --output text) || fail "ECS refuses to run the task"
	case $arn in
	"" | None) fail "ECS has started no task: is there capacity, and do the subnets exist?" ;;
	esac
	aws ecs wait tasks-stopped --cluster "stagefleet-$env" --tasks "$arn" || fail "the task $arn does not end; look at it in the console"
	code=$(aws ecs describe-tasks --cluster "stagefleet-$env" --tasks "$arn" --query 'tasks[0].containers[0].exitCode' --output text) ||
		fail "the task $arn cannot be looked at"
	[ "$code" = 0 ] || fail "the task ended with exit code $code; its words are in the log group /stagefleet/$env/migrate. Without a code it has not started: aws ecs describe-tasks --cluster stagefleet-$env --tasks $arn"
	echo "${arn##*/}"
}

migrate() {
	: "${SUBNETS:?is not set: subnets, comma-separated}"
	secret=$(output shared DatabaseSecret)
	stack migrate Image="$1" DatabaseSecret="$secret" ${ARCHITECTURE:+Architecture="$ARCHITECTURE"}
	if [ -n "${DRY_RUN:-}" ]; then
		echo "would run: a task that migrates the record" >&2
		return
	fi
	id=$(task)
	echo "deploy.sh: the schema is up to date (task $id)" >&2
}

# key shows the secret from the task's log. It has been written down there, so it is valid for a day only.
key() {
	if [ -n "${DRY_RUN:-}" ]; then
		echo "would run: a task that makes the operator's first key" >&2
		return
	fi
	id=$(task keys first --lifetime 24h)
	for _ in 1 2 3 4 5 6; do
		words=$(aws logs get-log-events --log-group-name "/stagefleet/$env/migrate" --log-stream-name "migrate/migrate/$id" --query 'events[].message' --output text | tr '\t' '\n') || words=""
		secret=$(echo "$words" | grep '^fleet_' || true)
		if [ -n "$secret" ]; then
			echo "deploy.sh: the operator's key, valid for a day; make the lasting ones with it (fleet keys create)" >&2
			echo "$secret"
			return
		fi
		sleep 5
	done
	fail "the key was made, but is not yet in the log stream migrate/migrate/$id of /stagefleet/$env/migrate; look there"
}

release() {
	tag=$1
	# All images first: a release without one of them does not begin.
	fleet=$(image "fleet-$tag")
	for s in{{.Stages}}; do
		image "$s-$tag" >/dev/null
	done
	stack queues # one that is new must be there before who sends to it
	migrate "$fleet"
	server "$fleet" ${CERTIFICATE:+Certificate="$CERTIFICATE"}
	for s in{{.Stages}}; do
		digest=$(image "$s-$tag")
		service "stage-$s" "$digest"
	done
	echo "deploy.sh: release $tag is deployed; fleet doctor compares the account with the manifest" >&2
}

# restore makes a change set from what lives: a plain deployment compares templates alone, and makes nothing again that
# somebody has deleted.
restore() {
	stack=stagefleet-$env-$1
	keys=$(aws cloudformation describe-stacks --stack-name "$stack" --query 'Stacks[0].Parameters[].ParameterKey' --output text) ||
		fail "the stack $stack cannot be read; is it deployed?"
	set --
	for key in $keys; do
		set -- "$@" "ParameterKey=$key,UsePreviousValue=true"
	done
	if [ -n "${DRY_RUN:-}" ]; then
		echo "would run: a change set of $stack that reverts its drift" >&2
		return
	fi
	id=$(aws cloudformation create-change-set --stack-name "$stack" --change-set-name "restore-$(date +%s)" --use-previous-template \
		--deployment-mode REVERT_DRIFT --capabilities CAPABILITY_IAM --parameters "$@" --query Id --output text) || fail "CloudFormation makes no change set of $stack"
	aws cloudformation wait change-set-create-complete --change-set-name "$id" ||
		fail "nothing of $stack differs from what was deployed, or it cannot be compared: aws cloudformation describe-change-set --change-set-name $id --query StatusReason"
	aws cloudformation describe-change-set --change-set-name "$id" --query 'Changes[].ResourceChange.[Action,LogicalResourceId,ResourceType]' --output table
	echo "deploy.sh: nothing is changed yet. Look at the table (KillSwitch among it: the fleet would be switched on), then say:" >&2
	echo "aws cloudformation execute-change-set --change-set-name $id"
}

case "${1:-}" in
shared)
	shift
	stack shared "$@"
	;;
queues) stack queues ;;
release) release "${2:?is missing: the tag of the images}" ;;
migrate) migrate "${2:?is missing: the image of the server}" ;;
key) key ;;
server)
	image=${2:?is missing: the image}
	shift 2
	server "$image" "$@"
	;;
restore) restore "${2:?is missing: the stack, such as shared or stage-{{.First}}}" ;;
stage)
	name=${2:?is missing: one of{{.Stages}}} image=${3:?is missing: the image}
	shift 3
	service "stage-$name" "$image" "$@"
	;;
*)
	sed -n '4,19s/^# \{0,1\}//p' deploy.sh
	exit 2
	;;
esac
