package infra_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const ruleCases = "testdata/rules_test.yaml"

// TestEveryAlertIsTriedAtItsEdge wants of each alert a case in which it rings and one in which it does not yet.
func TestEveryAlertIsTriedAtItsEdge(t *testing.T) {
	var cases struct {
		Tests []struct {
			Exprs []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	text, err := os.ReadFile(ruleCases)
	if err == nil {
		err = yaml.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	rings, not := map[string]bool{}, map[string]bool{}
	for name := range alertRules(t) {
		_, alert, _ := strings.Cut(name, " ")
		for _, c := range cases.Tests {
			for _, e := range c.Exprs {
				if strings.Contains(e.Expr, `alertname="Stagefleet`+alert+`"`) {
					rings[alert], not[alert] = rings[alert] || len(e.Samples) > 0, not[alert] || len(e.Samples) == 0
				}
			}
		}
		if !rings[alert] || !not[alert] {
			t.Errorf("%s: tried ringing: %v, not ringing: %v", alert, rings[alert], not[alert])
		}
	}
}

func TestPrometheusEvaluatesTheRulesAsTheyAreMeant(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; make verify says how to get it")
	}
	for _, args := range [][]string{{"check", "rules", "../../deploy/prometheus/rules.yaml"}, {"test", "rules", ruleCases}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
