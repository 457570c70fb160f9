package intake_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// A copy of this test binary with childDir set carries imports out in that folder until it is killed.
const childDir = "FLEET_TEST_INTAKE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		r := newRig(nil, dir) // a fault panics, and the test sees no progress
		_ = r.intake().Run(context.Background())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestAnImportWhoseServerIsKilledAgainAndAgainDoublesAndLosesNothing(t *testing.T) {
	const rows = 1500
	r := newRig(t, t.TempDir())
	defer r.close()
	r.put("inbox/acme/a.mp4", "a")
	folder, _ := r.talks(1)
	var text strings.Builder
	text.WriteString("target,source\n")
	for n := range rows {
		fmt.Fprintf(&text, "t%d,%s\n", n, []string{"object:a.mp4", "0.mp4"}[n%2])
	}
	id := r.hand(text.String(), folder)
	settled := int64(0)
	for kill := range 2 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+r.dir)
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The first is killed while it reads or soon after, the second among jobs. A lease that a dead one holds ends in 15 s.
		for deadline := time.Now().Add(60 * time.Second); ; {
			i := r.get(id)
			if kill == 0 && i.Rows > 0 || i.Accepted >= settled+200 || i.State.Ended() {
				settled = i.Accepted
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("no progress: %+v", i)
			}
			<-time.After(time.Millisecond)
		}
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	if settled >= rows {
		t.Error("the kills came after the end: the test shows nothing")
	}
	if i := r.finish(id); i.State != job.ImportCompleted || i.Accepted != rows {
		t.Fatalf("%+v", i)
	}
	a, err := r.s.Account(context.Background(), "acme")
	if err != nil || a.InFlight != rows {
		t.Errorf("%d jobs of %d rows, %v", a.InFlight, rows, err)
	}
	db := r.database()
	defer func() { _ = db.Close() }()
	for _, text := range []string{"UPDATE upload SET at = at - 1e13", "UPDATE import SET ended_at = ended_at - 1e13"} {
		if _, err := db.ExecContext(context.Background(), text); err != nil {
			t.Fatal(err)
		}
	}
	copies := len(r.keys()) - 2 // without the sheet and what is in the inbox
	left, want := r.collect(), slices.Compact(r.referred())
	if !slices.Equal(left, want) || len(want) != rows/2+1 {
		t.Errorf("%d objects are left, %d referred to", len(left), len(want))
	}
	t.Logf("killed at %d of %d rows; %d copies of %d were garbage", settled, rows, copies-rows/2, copies)
}
