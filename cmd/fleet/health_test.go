package main

import (
	"bytes"
	"testing"
)

func TestHealthSaysNothingOfAServerThatWorksAndFailsWithoutOne(t *testing.T) {
	s := serve(t)
	for addr, want := range map[string]int{s.addr: exitDone, "127.0.0.1:1": exitUnreachable} {
		var out, errs bytes.Buffer
		code := run([]string{"health"}, func(name string) string { return map[string]string{addrVar: addr}[name] }, &out, &errs)
		if code != want || out.Len() != 0 || (errs.Len() == 0) != (want == exitDone) {
			t.Errorf("%s = %d %q %q, want %d", addr, code, out.String(), errs.String(), want)
		}
	}
}
