package localsqs_test

import (
	"flag"
	"os"
	"testing"
)

var recordLog = flag.Bool("record", false, "write testdata/busy.log anew")

// TestLogOfThisFormatIsStillRead keeps a log of the released format; -record writes one, for a new format only.
func TestLogOfThisFormatIsStillRead(t *testing.T) {
	const name = "testdata/busy.log"
	if *recordLog {
		if err := os.WriteFile(name, record(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := open(t, place(t, must[[]byte](t)(os.ReadFile(name))))
	if dump := server.Dump(); len(dump) < 200 {
		t.Errorf("read only %s", dump)
	}
}
