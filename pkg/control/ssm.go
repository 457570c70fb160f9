package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// SSM is what a Parameter needs of *ssm.Client.
type SSM interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
}

// Parameter is the kill switch in the AWS Systems Manager Parameter Store. Its value is true, false, or an object such as
// {"all":true,"stages":{"compile":false}}, where what is not named is enabled.
type Parameter struct {
	Client SSM
	Name   string
}

// ParameterName is where the kill switch of an environment is by convention.
func ParameterName(environment string) string { return "/stagefleet/" + environment + "/enabled" }

// Enabled reads the parameter once.
func (p Parameter) Enabled(ctx context.Context, stage string) (bool, error) {
	out, err := p.Client.GetParameter(ctx, &ssm.GetParameterInput{Name: &p.Name})
	if err != nil {
		return false, fmt.Errorf("read parameter %s: %w", p.Name, err)
	}
	if out.Parameter == nil || out.Parameter.Value == nil {
		return false, fmt.Errorf("read parameter %s: %w", p.Name, errNoValue)
	}
	enabled, err := Enabled(*out.Parameter.Value, stage)
	if err != nil {
		return false, fmt.Errorf("read parameter %s: %w", p.Name, err)
	}
	return enabled, nil
}

var (
	errNoValue  = errors.New("it has no value")
	errTrailing = errors.New("text after the value")
)

// Enabled reads the value of a kill switch for one stage. A value with unknown names is an error: a misspelt switch must not pass
// for one that is on.
func Enabled(value, stage string) (bool, error) {
	var all bool
	if json.Unmarshal([]byte(value), &all) == nil && !isNull(value) {
		return all, nil
	}
	var s struct {
		All    *bool           `json:"all"`
		Stages map[string]bool `json:"stages"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(value)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return false, fmt.Errorf("decode switch: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("decode switch: %w", errTrailing)
	}
	if s.All == nil && s.Stages == nil {
		return false, fmt.Errorf("decode switch: %w", errNoValue)
	}
	if s.All != nil && !*s.All {
		return false, nil
	}
	on, named := s.Stages[stage]
	return on || !named, nil
}

func isNull(value string) bool { return bytes.Equal(bytes.TrimSpace([]byte(value)), []byte("null")) }
