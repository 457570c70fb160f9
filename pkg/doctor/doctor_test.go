package doctor_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stagefleet/stagefleet/pkg/doctor"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

func TestACleanAccountGivesNoFindingInSixtyCalls(t *testing.T) {
	a := newLive(t, nil)
	r := a.look(t)
	for _, f := range r.Findings {
		t.Errorf("%s %s: want %s, got %s", f.Resource, f.Field, f.Expected, f.Found)
	}
	for _, u := range r.Unseen {
		t.Errorf("unseen: %s %s: %s", u.Part, u.Resource, u.Why)
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	t.Logf("%d calls, %d resources", len(a.calls), r.Looked)
	if len(a.calls) > 60 {
		t.Errorf("%d calls, at most 60: %v", len(a.calls), a.calls)
	}
}

// reads are the operations that change nothing.
var reads = regexp.MustCompile(`^([\w]+\.(Get|List|Describe|Head|Simulate)\w+|GET .*)$`)

func TestNothingIsEverWritten(t *testing.T) {
	a := newLive(t, func(all []*resource) {
		for _, r := range all {
			if r.kind == "AWS::SQS::Queue" {
				r.properties["SqsManagedSseEnabled"] = false
			}
		}
	})
	r := a.look(t)
	if len(r.Findings) == 0 {
		t.Error("nothing was found")
	}
	for _, c := range a.calls {
		if !reads.MatchString(c) {
			t.Errorf("%s is not a read", c)
		}
	}
}

// TestTheEyesOfTheDoctorHaveNoMethodThatWrites shows that nothing can be, whatever the doctor does.
func TestTheEyesOfTheDoctorHaveNoMethodThatWrites(t *testing.T) {
	n := 0
	for field := range reflect.TypeFor[doctor.Account]().Fields() {
		for m := range field.Type.Methods() {
			n++
			if !regexp.MustCompile(`^(Get|List|Describe|Head|Simulate)[A-Z]`).MatchString(m.Name) {
				t.Errorf("%s.%s may write", field.Name, m.Name)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d methods were looked at", n)
	}
}

func TestWhatCannotBeSeenIsSaidInOneSentence(t *testing.T) {
	for name, c := range map[string]struct {
		status          int
		code, operation string
		part            doctor.Part
		want            string
	}{
		"queues":      {403, "AccessDenied", "AmazonSQS.ListQueues", doctor.PartQueues, "not allowed to call SQS ListQueues"},
		"alarms":      {400, "ThrottlingException", "GraniteServiceVersion20100801.DescribeAlarms", doctor.PartAlarms, "was throttled"},
		"services":    {400, "AccessDeniedException", "AmazonEC2ContainerServiceV20141113.DescribeServices", doctor.PartServices, "not allowed to call ECS DescribeServices"},
		"scaling":     {400, "AccessDeniedException", "AnyScaleFrontendService.DescribeScalableTargets", doctor.PartScaling, "not allowed"},
		"switch":      {400, "AccessDeniedException", "AmazonSSM.GetParameter", doctor.PartSwitch, "not allowed to call SSM GetParameter"},
		"bucket":      {403, "AccessDenied", "GET lifecycle=", doctor.PartBucket, "not allowed to call S3 GetBucketLifecycleConfiguration"},
		"logs":        {400, "ServiceUnavailableException", "Logs_20140328.DescribeLogGroups", doctor.PartLogs, "failed: ServiceUnavailableException"},
		"permissions": {403, "AccessDenied", "Query.SimulatePrincipalPolicy", doctor.PartPermissions, "not allowed to call IAM SimulatePrincipalPolicy"},
		"trust":       {403, "AccessDenied", "Query.ListRoles", doctor.PartPermissions, "not allowed to call IAM ListRoles"},
		"tags":        {400, "AccessDeniedException", "ResourceGroupsTaggingAPI_20170126.GetResources", doctor.PartTags, "not allowed"},
		"metrics":     {400, "AccessDenied", "GraniteServiceVersion20100801.GetMetricData", doctor.PartMetrics, "not allowed"},
		"account":     {403, "ExpiredToken", "Query.GetCallerIdentity", doctor.PartAccount, "AWS does not accept the credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newLive(t, nil)
			a.fail = func(operation string) (int, string) {
				if strings.HasPrefix(operation, c.operation) {
					return c.status, c.code
				}
				return 0, ""
			}
			r := a.look(t)
			if len(r.Findings) > 0 || len(r.Unseen) == 0 || r.Unseen[0].Part != c.part || !strings.Contains(r.Unseen[0].Why, c.want) || strings.Contains(r.Unseen[0].Why, "\n") {
				t.Errorf("want %s unseen, %q: %+v, findings %+v", c.part, c.want, r.Unseen, r.Findings)
			}
			if !errors.Is(r.Err(), doctor.ErrUnseen) {
				t.Errorf("the report's error is %v", r.Err())
			}
		})
	}
}

func TestADriftIsTheVerdictWhateverWasNotSeen(t *testing.T) {
	a := newLive(t, nil)
	property(a, "shared", "KillSwitch")["Value"] = "maybe"
	a.fail = func(operation string) (int, string) {
		if operation == "AmazonSQS.ListQueues" {
			return http.StatusForbidden, "AccessDenied"
		}
		return 0, ""
	}
	if r := a.look(t); !errors.Is(r.Err(), doctor.ErrDrift) || len(r.Unseen) != 1 {
		t.Errorf("%v, unseen %+v", r.Err(), r.Unseen)
	}
}

func TestWithoutCredentialsTheSentenceSaysWhatToSet(t *testing.T) {
	cfg := config("http://127.0.0.1:1")
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no EC2 role") })
	r := (&live{account: doctor.NewAccount(cfg)}).look(t)
	if len(r.Unseen) != 1 || !strings.HasPrefix(r.Unseen[0].Why, "no AWS credentials: set AWS_PROFILE") {
		t.Errorf("%+v", r.Unseen)
	}
}

func TestAClockThatIsOffIsFound(t *testing.T) {
	a := newLive(t, nil)
	a.date = func(h http.Header) { h.Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat)) }
	r := a.look(t)
	if len(r.Findings) != 1 || r.Findings[0].Part != doctor.PartClock {
		t.Errorf("%+v", r.Findings)
	}
}

func TestASchemaThatIsBehindIsFoundAndOneThatWasNotGivenIsUnseen(t *testing.T) {
	a := newLive(t, nil)
	r := a.look(t, func(c *doctor.Config) { c.Schema = func(context.Context) error { return doctor.ErrSchemaBehind } })
	if len(r.Findings) != 1 || r.Findings[0].Field != "schema" {
		t.Errorf("%+v", r.Findings)
	}
	r = a.look(t, func(c *doctor.Config) { c.Schema = nil })
	if len(r.Unseen) != 1 || r.Unseen[0].Part != doctor.PartRecord {
		t.Errorf("%+v", r.Unseen)
	}
	r = a.look(t, func(c *doctor.Config) { c.Schema, c.Skip = nil, []doctor.Part{doctor.PartRecord} })
	if r.Err() != nil || len(r.Skipped) != 1 {
		t.Errorf("%v, skipped %v", r.Err(), r.Skipped)
	}
}

func TestAnEmptyAccountIsOneFindingPerStackAndNotOnePerResource(t *testing.T) {
	a := newLive(t, nil)
	a.resources = nil
	a.queues = localsqs.New(localsqs.Options{Region: region, Account: account})
	t.Cleanup(func() { a.queues.Close() })
	r := a.look(t)
	stacks := 0
	var made []string
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Resource, "stack ") {
			stacks++
			made = append(made, strings.TrimPrefix(f.Mend, "deploy/deploy.sh "))
		}
	}
	for _, want := range []string{"shared Vpc=", "queues #", "stage ingest IMAGE", "migrate IMAGE", "server IMAGE"} {
		if !slices.ContainsFunc(made, func(words string) bool { return strings.HasPrefix(words, want) }) {
			t.Errorf("no mend is %q...: %q", want, made)
		}
	}
	if stacks < 9 || stacks != len(r.Findings) {
		t.Errorf("%d stacks of %d findings: %+v", stacks, len(r.Findings), r.Findings)
	}
}

// TestEveryTypeOfTheTemplatesIsComparedOrHasAReason keeps a new resource from being overlooked.
func TestEveryTypeOfTheTemplatesIsComparedOrHasAReason(t *testing.T) {
	for _, r := range deployed(t) {
		if !doctor.Compares(r.kind) && doctor.Unlooked(r.kind) == "" {
			t.Errorf("%s/%s: nobody says whether %s is compared", r.stack, r.id, r.kind)
		}
	}
}
