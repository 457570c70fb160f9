package doctor_test

import (
	"regexp"
	"strings"
	"testing"
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
var reads = regexp.MustCompile(`^(\w+\.(Get|List|Describe|Head|Simulate)\w+|GET .*)$`)

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
		if !reads.MatchString(strings.ReplaceAll(c, "GraniteServiceVersion20100801", "CloudWatch")) {
			t.Errorf("%s is not a read", c)
		}
	}
}
