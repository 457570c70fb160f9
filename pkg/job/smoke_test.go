package job

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	s, err := Open(ctx, "sqlite:"+t.TempDir()+"/db", Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := Route{Stage: "ingest", Queue: "q1", DLQ: "d1", FIFO: true}
	j, err := s.Submit(ctx, Submission{Tenant: "a", Target: "rec", Digest: "d", Input: json.RawMessage(`{"x":1}`), First: first, Price: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", j)
	rows := <-s.handed
	t.Logf("%+v", rows)
	c, err := s.Claim(ctx, ClaimRequest{Step: j.Steps[0].ID, Tenant: "a", Emission: 1, Stage: "ingest", Worker: "w", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	errs, err := s.Renew(ctx, []Renewal{{c.Step, c.Token, time.Minute}})
	t.Log(errs, err)
	p, err := s.Publish(ctx, Publication{Claim: c, Output: json.RawMessage(`{"y":2}`)})
	t.Logf("%+v %v", p, err)
	j, err = s.Job(ctx, "a", j.ID)
	raw, _ := json.Marshal(j)
	t.Logf("%s %v", raw, err)
}
