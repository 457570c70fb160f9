package intake_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

var manyRows = flag.Int("import-rows", 5000, "rows of the sheet that is carried out to its end")

func TestManyRowsBecomeJobs(t *testing.T) {
	rows := *manyRows / raceShare
	r := newRig(t, t.TempDir())
	defer r.close()
	r.put("inbox/acme/a.mp4", "a")
	var text strings.Builder
	text.WriteString("target,source\n")
	for n := range rows {
		fmt.Fprintf(&text, "t%d,object:a.mp4\n", n)
	}
	began := time.Now()
	i := r.finish(r.hand(text.String(), ""))
	took := time.Since(began)
	if i.State != job.ImportCompleted || i.Accepted != int64(rows) {
		t.Fatalf("%+v", i)
	}
	t.Logf("%d rows in %.1f s: %.0f a second", rows, took.Seconds(), float64(rows)/took.Seconds())
}
