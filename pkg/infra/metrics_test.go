package infra_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/breaker"
	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/pool"
	"github.com/stagefleet/stagefleet/pkg/protect"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

// names collects the metrics that are registered, those without a series too.
type names map[string]string

var described = regexp.MustCompile(`fqName: "([^"]*)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

func (n names) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		n[m[1]] = m[2] + "," + m[3]
	}
	return nil
}

func (n names) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = n.Register(c)
	}
}

func (names) Unregister(prometheus.Collector) bool { return false }

// exported are the metrics of the parts that a worker and the server are made of.
func exported(t *testing.T) names {
	t.Helper()
	n := names{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := breaker.New(breaker.Config{Name: "cut", Metrics: n})
	must(err)
	_, err = protect.New(protect.Config{Name: "cut", Longest: time.Hour, Metrics: n})
	must(err)
	_, err = control.New(control.Config{Stage: "cut", Record: noPauses{}, Wait: time.Second, Metrics: n})
	must(err)
	_, err = pool.New(sqs.New(sqs.Options{}), pool.Config{QueueURL: "http://q/cut", Handler: func(context.Context, pool.Message) error { return nil }, Metrics: n})
	must(err)
	overview, err := admin.New(workers.Stages, env, nil, nil)
	must(err)
	n.MustRegister(overview, fleet.LagGauge(t.Context(), nil), fleet.SilentGauge(t.Context(), nil))
	return n
}

type noPauses struct{}

func (noPauses) Pauses(context.Context) ([]control.Pause, error) { return nil, nil }

func TestEveryMetricOfTheRulesIsOneThatTheCodeExports(t *testing.T) {
	n := exported(t)
	var rules string
	for _, f := range generate(t) {
		if f.Name == "prometheus/rules.yaml" {
			rules = string(f.Text)
		}
	}
	found := regexp.MustCompile(`\b(?:stagefleet|fleet)_[a-z_]+`).FindAllString(rules, -1)
	slices.Sort(found)
	found = slices.Compact(found)
	t.Log(found)
	if len(found) < 8 {
		t.Errorf("only %v", found)
	}
	for _, name := range found {
		if _, ok := n[name]; !ok {
			t.Errorf("no code exports %s", name)
		}
	}
	for signal, own := range stage.OwnMetrics {
		labels, ok := n[own.Metric]
		if !ok {
			t.Errorf("signal %s: no code exports %s", signal, own.Metric)
		}
		for _, l := range []string{own.Label, own.StageLabel} {
			if !strings.Contains(labels, l) {
				t.Errorf("signal %s: %s has the labels %s, not %s", signal, own.Metric, labels, l)
			}
		}
		if own.StageLabel == "" && !own.Server {
			t.Errorf("signal %s: no label of %s says of which stage it is, so no rule can ask for one", signal, own.Metric)
		}
	}
}

// TestEveryMetricThatTheReadmeNamesIsInTheCode looks for the names as texts: the record's and the workers' parts are not made here.
func TestEveryMetricThatTheReadmeNamesIsInTheCode(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, f := range generate(t) {
		if f.Name == "README.md" {
			named = regexp.MustCompile("`((?:stage)?fleet_[a-z_]+)`").FindAllString(string(f.Text), -1)
		}
	}
	if len(named) < 6 {
		t.Errorf("only %v", named)
	}
	for _, name := range named {
		if name = strings.Trim(name, "`"); !strings.Contains(code.String(), `"`+name+`"`) {
			t.Errorf("no code has the metric %s", name)
		}
	}
}
