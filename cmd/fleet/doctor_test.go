package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/doctor"
)

// away hides the machine's AWS configuration.
func away(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func examine(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(append([]string{"doctor"}, args...), func(string) string { return "" }, &out, &errs)
	return code, out.String(), errs.String()
}

func TestDoctorWithoutRegionOrCredentialsSaysWhatToSet(t *testing.T) {
	away(t)
	if code, out, errs := examine(); code != exitUnreachable || out != "" || !strings.Contains(errs, "set AWS_REGION") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	code, out, errs := examine("--json")
	if code != exitUnreachable || !strings.Contains(out, `"unseen":[{"part":"account","resource":"everything","why":"no AWS credentials: set AWS_PROFILE`) {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestDoctorRefusesAPartThatDoesNotExist(t *testing.T) {
	if code, _, errs := examine("--skip", "queue"); code != exitUsage || !strings.Contains(errs, "there is no such part; there are clock, queues") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestDoctorLooksForALocalFleetThatIsNotThere(t *testing.T) {
	code, out, _ := examine("--local", "--state", t.TempDir()+"/none", "--addr", "127.0.0.1:1")
	if !strings.Contains(out, "start it with fleet up") || code != exitUnreachable && code != exitFailed {
		t.Errorf("exit %d, %q", code, out)
	}
}

func TestOnATerminalAFindingIsABlock(t *testing.T) {
	var out bytes.Buffer
	findingBlocks(&out, []doctor.Finding{{Resource: "service compile", Field: "DesiredCount", Expected: "1 to 16", Found: "17", Why: "too many", Mend: "aws ecs update-service"}})
	if want := "service compile: DesiredCount\n  expected  1 to 16\n  found     17\n  why       too many\n  mend      aws ecs update-service\n\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestAReportTellsWhatWhyAndHow(t *testing.T) {
	var out bytes.Buffer
	err := printReport(&out, doctor.Report{
		Environment: "prod", Account: "111122223333", Region: "eu-west-1", Looked: 213, Skipped: []doctor.Part{doctor.PartRecord},
		Findings: []doctor.Finding{{Resource: "service compile", Field: "DesiredCount", Expected: "1 to 16", Found: "17", Why: "too many", Mend: "aws ecs update-service"}},
		Unseen:   []doctor.Unseen{{Part: doctor.PartQueues, Resource: "all queues", Why: "not allowed"}},
	})
	const want = `RESOURCE         FIELD         EXPECTED  FOUND  WHY       MEND
service compile  DesiredCount  1 to 16   17     too many  aws ecs update-service

Not looked at:
  queues, all queues: not allowed

prod (account 111122223333, eu-west-1): 213 resources compared, 1 finding, 1 not looked at, left out as asked: record.
`
	if err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestTheExitCodeOfTheDoctorIsTheVerdict(t *testing.T) {
	drift, unseen := []doctor.Finding{{}}, []doctor.Unseen{{}}
	for want, r := range map[int][]doctor.Report{
		exitDone:        {{}, {Skipped: []doctor.Part{doctor.PartRecord}}},
		exitFailed:      {{Findings: drift}, {Findings: drift, Unseen: unseen}},
		exitUnreachable: {{Unseen: unseen}},
	} {
		for _, report := range r {
			if got := exitCode(errors.Join(nil, report.Err())); got != want {
				t.Errorf("exit %d of %+v, want %d", got, report, want)
			}
		}
	}
}
