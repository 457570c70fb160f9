package job_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// described is a metric's description as prometheus prints it.
var described = regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`)

// registered keeps the names of metrics, with their labels.
type registered struct {
	prometheus.Registerer
	names map[string]string
}

func (r *registered) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc, 10)
	c.Describe(all)
	close(all)
	for d := range all {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			r.names[m[1]] = m[2]
		}
	}
	return nil
}

func TestTheREADMETablesTheMetricsOfTheRecordByWorkType(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	r := &registered{names: map[string]string{}}
	s := open(t, freshURL(t, "sqlite"), job.Options{Registerer: r})
	_ = s
	// What the relay and the reconciler do is no type of work, nor is a refusal before anything was work.
	for _, other := range []string{"fleet_job_repairs_total", "fleet_job_reconcile_faults_total", "fleet_job_accounts_mended_total", "fleet_job_claims_refused_total", "fleet_job_submissions_total"} {
		delete(r.names, other)
	}
	told := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(fleet_(?:job|stage)_\\w+)` \\|.*\\| ([^|]+) \\|$").FindAllStringSubmatch(string(readme), -1) {
		told[row[1]] = strings.NewReplacer("`", "", " ", "").Replace(row[2])
	}
	maps.DeleteFunc(r.names, func(name, _ string) bool {
		return !strings.HasPrefix(name, "fleet_job_") && !strings.HasPrefix(name, "fleet_stage_")
	})
	if !maps.Equal(told, r.names) {
		t.Errorf("README tables %v\nthe record has %v", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(r.names)))
		t.Errorf("with labels %v and %v", told, r.names)
	}
}
