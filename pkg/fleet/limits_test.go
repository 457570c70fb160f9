package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

func TestAboveTheSoftLimitJobsWaitAndAboveTheHardOneTheyAreRefused(t *testing.T) {
	r := remote(t)
	r.Limits = Limits{Soft: 1, Hard: 2}
	record, err := job.Open(t.Context(), r.Database, job.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	r.Ready = func(a string) { addr <- a }
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client := api.NewClient(<-addr)
	defer client.Close()
	submit := func(name string) (job.Job, error) {
		return client.Submit(t.Context(), api.Request{Name: name}, strings.NewReader(name))
	}
	for i, want := range []job.State{job.Queued, job.Waiting} {
		if j, err := submit(string(rune('a' + i))); err != nil || j.State != want {
			t.Errorf("job %d is %s, want %s: %v", i+1, j.State, want, err)
		}
	}
	_, err = submit("c")
	refused, ok := errors.AsType[*api.Problem](err)
	if !ok || refused.Status != http.StatusServiceUnavailable || refused.RetryAfter <= 0 {
		t.Errorf("job 3: %v, want 503 with Retry-After", err)
	}
}

func TestLimitsThatCannotBeNameFlagAndVariable(t *testing.T) {
	for _, c := range [][2]string{{"many", "0"}, {"-1", "0"}, {"1", "1.5"}, {"11", "10"}, {"0", "10"}, {"", "10"}} {
		_, err := ParseLimits(c[0], c[1])
		if err == nil || !strings.Contains(err.Error(), "-limit (FLEET_") || strings.Contains(err.Error(), "\n") {
			t.Errorf("soft %q, hard %q: %v", c[0], c[1], err)
		}
	}
	for _, c := range [][2]string{{"0", "0"}, {"10", "0"}, {"10", "10"}} {
		if _, err := ParseLimits(c[0], c[1]); err != nil {
			t.Errorf("soft %q, hard %q: %v", c[0], c[1], err)
		}
	}
}

func TestTrustedProxiesAreAddressesAndNetworks(t *testing.T) {
	got, err := ParseProxies("10.0.0.7/24, 192.0.2.7,2001:db8::/32")
	if want := "[10.0.0.0/24 192.0.2.7/32 2001:db8::/32]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	if got, err := ParseProxies(""); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
	for _, bad := range []string{"10.0.0.0/33", "lb.internal", "10.0.0.1,", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104"} {
		if _, err := ParseProxies(bad); err == nil || !strings.Contains(err.Error(), EnvProxies) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
