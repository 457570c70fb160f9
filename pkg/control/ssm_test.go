package control_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/stagefleet/stagefleet/pkg/control"
)

func TestSwitchValues(t *testing.T) {
	for value, want := range map[string]string{ // for the stage compile
		"true":          "on",
		" false\n":      "off",
		`{"all":true}`:  "on",
		`{"all":false}`: "off",
		`{"all":true,"stages":{"compile":false}}`: "off",
		`{"all":true,"stages":{"publish":false}}`: "on",
		`{"stages":{"compile":false}}`:            "off",
		`{"stages":{"compile":true}}`:             "on",
		`{"all":false,"stages":{"compile":true}}`: "off",
		"":                "error",
		"null":            "error",
		"yes":             "error",
		"1":               "error",
		"{}":              "error",
		`{"all":null}`:    "error",
		`{"al":false}`:    "error",
		`{"all":"false"}`: "error",
		`{"all":true} {}`: "error",
		`{"all":true,"stages":{"compile":"maybe"}}`: "error",
		`[true]`: "error",
	} {
		enabled, err := control.Enabled(value, "compile")
		got := map[bool]string{true: "on", false: "off"}[enabled]
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", value, got, err, want)
		}
	}
}

func FuzzSwitchNeverEnablesWhatItNamesDisabled(f *testing.F) {
	f.Add("true", "compile")
	f.Add(`{"all":true,"stages":{"compile":false}}`, "compile")
	f.Fuzz(func(t *testing.T, value, stage string) {
		all, errAll := control.Enabled(value, "a stage that nobody names")
		one, err := control.Enabled(value, stage)
		if (err == nil) != (errAll == nil) {
			t.Errorf("%q is readable for one stage alone", value)
		}
		if err == nil && one && !all && value != "true" {
			t.Errorf("%q enables %q while all is off", value, stage)
		}
	})
}

// store is a parameter store with one answer.
type store struct {
	out  *ssm.GetParameterOutput
	err  error
	name string
}

func (s *store) GetParameter(_ context.Context, in *ssm.GetParameterInput, _ ...func(*ssm.Options)) (*ssm.GetParameterOutput, error) {
	s.name = *in.Name
	return s.out, s.err
}

func TestParameterIsReadByItsName(t *testing.T) {
	missing := &types.ParameterNotFound{}
	for name, c := range map[string]struct {
		store store
		want  bool
		err   bool
	}{
		"on":       {store: store{out: &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: new("true")}}}, want: true},
		"off":      {store: store{out: &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: new("false")}}}},
		"missing":  {store: store{err: missing}, err: true},
		"empty":    {store: store{out: &ssm.GetParameterOutput{}}, err: true},
		"no value": {store: store{out: &ssm.GetParameterOutput{Parameter: &types.Parameter{}}}, err: true},
		"garbage":  {store: store{out: &ssm.GetParameterOutput{Parameter: &types.Parameter{Value: new("on")}}}, err: true},
	} {
		p := control.Parameter{Client: &c.store, Name: control.ParameterName("prod")}
		got, err := p.Enabled(t.Context(), "compile")
		if got != c.want || (err != nil) != c.err || c.store.name != "/stagefleet/prod/enabled" {
			t.Errorf("%s: %v, %v of %s", name, got, err, c.store.name)
		}
		if name == "missing" && !errors.Is(err, missing) {
			t.Errorf("%v hides its cause", err)
		}
	}
}
