package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

func TestSQSRefusesAnAddressInOneSentence(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		addr string
		code int
		want string
	}{
		{"9324", exitUsage, "not host:port"}, {"127.0.0.1:70000", exitUsage, "0 to 65535"}, {"127.0.0.1:x", exitUsage, "not host:port"},
		{"192.0.2.1:9324", exitUsage, "no such address"}, {taken.Addr().String(), exitFailed, "choose another address"},
	} {
		var stdout, stderr bytes.Buffer
		code := run([]string{"sqs", "--addr", c.addr}, func(string) string { return "" }, &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") != 1 || stdout.Len() > 0 {
			t.Errorf("--addr %s = %d\n%s%s", c.addr, code, stdout.String(), stderr.String())
		}
	}
}

func TestSQSSaysWhichURLToUse(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:9324": "http://127.0.0.1:9324", "[::1]:9324": "http://[::1]:9324",
		"0.0.0.0:9324": "http://127.0.0.1:9324 and, for other machines, at every address of this one", "[::]:9324": "http://127.0.0.1:9324 and, for other machines, at every address of this one",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := reachable(tcp); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
