package envelope_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/envelope"
)

func TestABodyReadsBackAsWritten(t *testing.T) {
	in := envelope.Body{Step: "01hx", Emission: 3, Tenant: "acme"}
	s, err := envelope.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"v":1,"step":"01hx","emission":3,"tenant":"acme"}`; s != want {
		t.Fatalf("body %s, want %s", s, want)
	}
	out, err := envelope.Decode(s)
	in.V = envelope.Version
	if err != nil || out != in {
		t.Fatalf("decoded %+v, %v", out, err)
	}
}

func TestBodiesThatCannotBeUnderstoodAreMalformed(t *testing.T) {
	for name, body := range map[string]string{
		"empty":            ``,
		"not JSON":         `hello`,
		"other type":       `[1]`,
		"no step":          `{"v":1,"emission":1,"tenant":"a"}`,
		"no tenant":        `{"v":1,"step":"s","emission":1}`,
		"no emission":      `{"v":1,"step":"s","tenant":"a"}`,
		"newer version":    `{"v":2,"step":"s","emission":1,"tenant":"a"}`,
		"path as step":     `{"v":1,"step":"../s","emission":1,"tenant":"a"}`,
		"fraction":         `{"v":1,"step":"s","emission":1.5,"tenant":"a"}`,
		"longer than read": `{"v":1,"step":"s","emission":1,"tenant":"a","x":"` + strings.Repeat("y", envelope.MaxBody) + `"}`,
	} {
		if _, err := envelope.Decode(body); !errors.Is(err, envelope.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

func TestErrorsDoNotRepeatTheBody(t *testing.T) {
	_, err := envelope.Decode(`{"v":"canary-5cf1"}`)
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Fatalf("error %v repeats what was received", err)
	}
}

func TestIdentifiersSortByTimeAndAreIdentifiers(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	earlier, later := envelope.NewID(at), envelope.NewID(at.Add(time.Millisecond))
	if earlier >= later || len(earlier) != 26 {
		t.Fatalf("%s then %s", earlier, later)
	}
	if !envelope.ValidID(earlier) {
		t.Fatalf("%s is not a valid identifier", earlier)
	}
	if earlier == envelope.NewID(at) {
		t.Fatal("two identifiers of one instant are equal")
	}
}

func FuzzDecodeAcceptsOnlyWhatEncodeCouldWrite(f *testing.F) {
	f.Add(`{"v":1,"step":"s","emission":1,"tenant":"a"}`)
	f.Add(`{"v":1,"step":"s","emission":9223372036854775807,"tenant":"a","later":true}`)
	f.Add(`{"V":1,"STEP":"s"}`)
	f.Fuzz(func(t *testing.T, s string) {
		b, err := envelope.Decode(s)
		if err != nil {
			if !errors.Is(err, envelope.ErrMalformed) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		again, err := envelope.Encode(b)
		if err != nil {
			t.Fatalf("decoded %+v cannot be encoded: %v", b, err)
		}
		if back, err := envelope.Decode(again); err != nil || back != b {
			t.Fatalf("%+v became %+v, %v", b, back, err)
		}
		if !json.Valid([]byte(again)) {
			t.Fatalf("%s is not JSON", again)
		}
	})
}

func TestIdentifiersOfOneMillisecondSortInTheOrderOfTheirMaking(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var ids []string
	for range 1000 {
		ids = append(ids, envelope.NewID(at))
		envelope.NewID(at.Add(time.Millisecond)) // of somebody whose clock was read later
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 1000 {
		t.Error("not in order, or not different ones")
	}
}
