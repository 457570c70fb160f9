package infra_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/workers"
)

// fakeAWS is the aws command as far as deploy.sh knows it: it notes each call, answers reads as AWS would for stacks and
// images that are all there, and fails a call that contains the text of FAIL.
const fakeAWS = `#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in *"${FAIL:-no such call}"*) echo "An error occurred" >&2; exit 254 ;; esac
case "$*" in
*"OutputKey=='Repository'"*) echo 1.dkr.ecr.us-east-1.amazonaws.com/stagefleet-prod ;;
*StackStatus*) echo "${STATUS:-UPDATE_COMPLETE}" ;;
*create-change-set*) echo arn:change-set ;;
*ParameterKey*) printf 'Image\tOwner\n' ;;
*describe-stacks*) echo "$*" | sed "s/.*OutputKey=='\([A-Za-z]*\)'.*/the-\1/" ;;
*describe-images*) echo "$*" | sed 's/.*imageTag=\([^ ]*\).*/sha256:of-\1/' ;;
*run-task*) echo "${TASK:-arn:aws:ecs:us-east-1:1:task/stagefleet-prod/task-1}" ;;
*describe-tasks*) echo "${EXIT:-0}" ;;
*get-log-events*) printf 'The key, shown once:\tfleet_secret\n' ;;
esac
`

// deployment is a generated folder beside a fake aws.
type deployment struct {
	t        *testing.T
	dir, log string
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir()}
	d.log = filepath.Join(d.dir, "calls")
	if _, err := infra.Write(d.dir, generate(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "bin", "aws"), []byte(fakeAWS), 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

// run calls deploy.sh and returns its exit code, what it says, and the calls of aws that change something.
func (d *deployment) run(settings []string, words ...string) (code int, stdout, stderr string, changes []string) {
	d.t.Helper()
	if err := os.WriteFile(d.log, nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(d.dir, "deploy.sh"), words...)
	cmd.Env = append([]string{"PATH=" + filepath.Join(d.dir, "bin") + ":/usr/bin:/bin", "CALLS=" + d.log, "VPC=vpc-1", "SUBNETS=subnet-1,subnet-2"}, settings...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	calls, err := os.ReadFile(d.log)
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(calls)) {
		if regexp.MustCompile(`^(cloudformation (deploy|delete-stack|create-change-set|execute)|ecs run-task)`).MatchString(line) {
			changes = append(changes, strings.TrimSpace(line))
		}
	}
	return cmd.ProcessState.ExitCode(), string(out), errs.String(), changes
}

// stacksOf are the stacks that calls deploy, and "task" for a task that is run.
func stacksOf(changes []string) []string {
	var all []string
	for _, c := range changes {
		if m := regexp.MustCompile(`--stack-name stagefleet-prod-(\S+)`).FindStringSubmatch(c); m != nil {
			all = append(all, m[1])
		} else {
			all = append(all, "task")
		}
	}
	return all
}

func releaseOrder() []string {
	order := []string{"queues", "migrate", "task", "server"}
	for _, s := range workers.Stages {
		order = append(order, "stage-"+s.Name)
	}
	return order
}

func TestAReleaseGoesFromTheSchemaOverTheServerToTheStages(t *testing.T) {
	d := newDeployment(t)
	code, _, stderr, changes := d.run([]string{"CERTIFICATE=arn:acm"}, "release", "7")
	if code != 0 || !slices.Equal(stacksOf(changes), releaseOrder()) {
		t.Fatalf("= %d %s\n%q", code, stderr, changes)
	}
	image := "Image=1.dkr.ecr.us-east-1.amazonaws.com/stagefleet-prod@sha256:of-"
	for i, wants := range map[int][]string{
		1: {image + "fleet-7", "DatabaseSecret=the-DatabaseSecret", "--template-file migrate.yaml", "--capabilities CAPABILITY_IAM"},
		2: {"--task-definition the-TaskDefinition", "--overrides {}", "subnets=[subnet-1,subnet-2],securityGroups=[the-SecurityGroup],assignPublicIp=DISABLED"},
		3: {image + "fleet-7", "Vpc=vpc-1", "LoadBalancerSecurityGroup=the-LoadBalancerSecurityGroup", "Certificate=arn:acm", "Subnets=subnet-1,subnet-2"},
		4: {image + "ingest-7", "SecurityGroup=the-SecurityGroup", "DatabaseSecret=the-DatabaseSecret", "PublicIp=DISABLED"},
	} {
		for _, want := range wants {
			if !strings.Contains(changes[i], want) {
				t.Errorf("%q is not in: %s", want, changes[i])
			}
		}
	}
	if !strings.Contains(stderr, "fleet doctor") {
		t.Errorf("does not say what comes next: %s", stderr)
	}
}

func TestTheFirstFailureOfAReleaseEndsItWithASentenceAndTheNextRunGoesOn(t *testing.T) {
	for fail, c := range map[string]struct {
		done []string
		says string
	}{
		"--image-ids imageTag=caption-7":                      {nil, "there is no image 1.dkr.ecr.us-east-1.amazonaws.com/stagefleet-prod:caption-7"},
		"describe-stacks --stack-name stagefleet-prod-shared": {nil, "stagefleet-prod-shared cannot be read"},
		"--stack-name stagefleet-prod-migrate --template":     {releaseOrder()[:2], "stagefleet-prod-migrate was not deployed"},
		"ecs run-task": {releaseOrder()[:3], "refuses to run the task"},
		"--stack-name stagefleet-prod-stage-identify": {releaseOrder()[:7], "stagefleet-prod-stage-identify was not deployed"},
	} {
		d := newDeployment(t)
		code, _, stderr, changes := d.run([]string{"FAIL=" + fail}, "release", "7")
		if code != 1 || !strings.Contains(stderr, "deploy.sh: ") || !strings.Contains(stderr, c.says) || !slices.Equal(stacksOf(changes), c.done) {
			t.Errorf("%s = %d %s\n%q", fail, code, stderr, stacksOf(changes))
		}
		if code, _, stderr, changes := d.run(nil, "release", "7"); code != 0 || !slices.Equal(stacksOf(changes), releaseOrder()) {
			t.Errorf("again = %d %s\n%q", code, stderr, stacksOf(changes))
		}
	}
}

func TestAMigrationThatFailsOrDoesNotStartEndsTheRelease(t *testing.T) {
	for setting, says := range map[string]string{"EXIT=1": "exit code 1", "EXIT=None": "has not started", "TASK=None": "started no task"} {
		code, _, stderr, changes := newDeployment(t).run([]string{setting}, "release", "7")
		if code != 1 || !strings.Contains(stderr, says) || !slices.Equal(stacksOf(changes), releaseOrder()[:3]) {
			t.Errorf("%s = %d %s\n%q", setting, code, stderr, changes)
		}
	}
}

func TestADryRunChangesNothingAndShowsEveryStep(t *testing.T) {
	d := newDeployment(t)
	for words, wants := range map[string][]string{
		"shared Vpc=vpc-1": {"--stack-name stagefleet-prod-shared", "Vpc=vpc-1"},
		"release 7":        {"stagefleet-prod-migrate", "task that migrates", "stagefleet-prod-server", "stagefleet-prod-stage-publish", "Image=1.dkr.ecr"},
		"key":              {"first key"},
	} {
		code, _, stderr, changes := d.run([]string{"DRY_RUN=1"}, strings.Fields(words)...)
		if code != 0 || len(changes) != 0 {
			t.Errorf("%s = %d %s %q", words, code, stderr, changes)
		}
		for _, want := range wants {
			if !strings.Contains(stderr, "would run: ") || !strings.Contains(stderr, want) {
				t.Errorf("%s: %q is not in: %s", words, want, stderr)
			}
		}
	}
}

func TestTheFirstKeyIsMadeInATaskAndShownAlone(t *testing.T) {
	code, stdout, stderr, changes := newDeployment(t).run(nil, "key")
	if code != 0 || stdout != "fleet_secret\n" || !strings.Contains(stderr, "valid for a day") {
		t.Errorf("= %d %q %q", code, stdout, stderr)
	}
	if len(changes) != 1 || !strings.Contains(changes[0], `{"containerOverrides":[{"name":"migrate","command":["keys","first","--lifetime","24h"]}]}`) {
		t.Errorf("%q", changes)
	}
}

func TestStacksOfTheirOwnTakeTheirParameters(t *testing.T) {
	d := newDeployment(t)
	for words, want := range map[string]string{
		"shared Vpc=vpc-1 Subnets=a,b":        "--stack-name stagefleet-prod-shared --template-file shared.yaml --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset --tags app=stagefleet env=prod --parameter-overrides Vpc=vpc-1 Subnets=a,b",
		"queues":                              "--stack-name stagefleet-prod-queues --template-file queues.yaml --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset --tags app=stagefleet env=prod",
		"server r@sha256:1 Certificate=arn":   "Certificate=arn",
		"stage ingest r@sha256:1 Owner=media": "Owner=media",
	} {
		code, _, stderr, changes := d.run(nil, strings.Fields(words)...)
		if code != 0 || len(changes) != 1 || !strings.HasSuffix(changes[0], want) {
			t.Errorf("%s = %d %s\n%q", words, code, stderr, changes)
		}
	}
}

// TestWhatAFirstAttemptHasLeftIsTakenAwayBeforeTheNext: CloudFormation takes nothing else from a stack whose making it has rolled back.
func TestWhatAFirstAttemptHasLeftIsTakenAwayBeforeTheNext(t *testing.T) {
	d := newDeployment(t)
	code, _, stderr, changes := d.run([]string{"STATUS=ROLLBACK_COMPLETE"}, "queues")
	if code != 0 || len(changes) != 2 || !strings.HasPrefix(changes[0], "cloudformation delete-stack --stack-name stagefleet-prod-queues") || !strings.HasPrefix(changes[1], "cloudformation deploy ") {
		t.Errorf("= %d %s %q", code, stderr, changes)
	}
	for _, status := range []string{"STATUS=CREATE_COMPLETE", "STATUS=UPDATE_ROLLBACK_COMPLETE", "FAIL=StackStatus"} { // the last is a stack that is not there
		if code, _, stderr, changes := d.run([]string{status}, "queues"); code != 0 || len(changes) != 1 {
			t.Errorf("%s = %d %s %q", status, code, stderr, changes)
		}
	}
	if code, _, stderr, changes := d.run([]string{"STATUS=ROLLBACK_FAILED"}, "shared", "Vpc=vpc-1"); code != 1 || len(changes) != 0 || !strings.Contains(stderr, "--no-deletion-protection") {
		t.Errorf("a database that protects itself = %d %s %q", code, stderr, changes)
	}
	if code, _, stderr, changes := d.run([]string{"STATUS=ROLLBACK_COMPLETE", "DRY_RUN=1"}, "queues"); code != 0 || len(changes) != 0 || !strings.Contains(stderr, "would run: aws cloudformation delete-stack") {
		t.Errorf("dry = %d %s %q", code, stderr, changes)
	}
}

func TestRestoringShowsWhatWouldChangeAndChangesNothing(t *testing.T) {
	d := newDeployment(t)
	code, stdout, stderr, changes := d.run(nil, "restore", "stage-compile")
	if code != 0 || len(changes) != 1 || stdout != "aws cloudformation execute-change-set --change-set-name arn:change-set\n" || !strings.Contains(stderr, "KillSwitch") {
		t.Fatalf("= %d %q %s %q", code, stdout, stderr, changes)
	}
	for _, want := range []string{"create-change-set --stack-name stagefleet-prod-stage-compile ", "--use-previous-template", "--deployment-mode REVERT_DRIFT",
		"--parameters ParameterKey=Image,UsePreviousValue=true ParameterKey=Owner,UsePreviousValue=true"} {
		if !strings.Contains(changes[0], want) {
			t.Errorf("%q is not in: %s", want, changes[0])
		}
	}
	for fail, says := range map[string]string{"ParameterKey": "is it deployed", "create-change-set": "makes no change set", "wait change-set": "nothing of stagefleet-prod-stage-compile differs"} {
		if code, _, stderr, _ := d.run([]string{"FAIL=" + fail}, "restore", "stage-compile"); code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("%s = %d %s", fail, code, stderr)
		}
	}
}

func TestImagesOfAnotherProcessorAreSaidOnce(t *testing.T) {
	_, _, _, changes := newDeployment(t).run([]string{"ARCHITECTURE=ARM64"}, "release", "7")
	for _, c := range changes {
		if strings.Contains(c, "Image=") != strings.Contains(c, "Architecture=ARM64") {
			t.Errorf("%s", c)
		}
	}
}

func TestACallWithoutWhatItNeedsSaysWhat(t *testing.T) {
	d := newDeployment(t)
	for words, says := range map[string]string{"": "deploy.sh stage NAME IMAGE", "release": "the tag", "stage": "ingest transcribe", "stage ingest": "the image", "restore": "the stack", "nonsense": "deploy.sh queues"} {
		code, stdout, stderr, changes := d.run(nil, strings.Fields(words)...)
		if code != 2 && code != 1 || len(changes) != 0 || !strings.Contains(stdout+stderr, says) {
			t.Errorf("%q = %d %s%s", words, code, stdout, stderr)
		}
	}
	if code, _, stderr, changes := d.run([]string{"SUBNETS="}, "migrate", "r@sha256:1"); code == 0 || !strings.Contains(stderr, "SUBNETS") || len(changes) != 0 {
		t.Errorf("without subnets = %d %s %q", code, stderr, changes)
	}
}
