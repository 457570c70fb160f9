package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// bin holds fleet and, in workers/, the seven workers: the layout of `make build`.
var bin string

var seedFlag = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the names and words of this run")

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := withBinaries(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	os.Exit(code)
}

// withBinaries builds what ships, without the race detector: these tests are about processes and time.
func withBinaries(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "fleet-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	bin = filepath.Join(dir, "bin")
	stages, err := filepath.Glob("../workers/*/main.go")
	if err != nil || len(stages) == 0 {
		return 1, fmt.Errorf("find the workers: %d found, %w", len(stages), err)
	}
	var packages []string
	for _, main := range stages {
		packages = append(packages, filepath.Dir(main))
	}
	for out, what := range map[string][]string{"workers/": packages, "fleet": {"../cmd/fleet"}} {
		args := append([]string{"build", "-ldflags=-s -w", "-o", bin + "/" + out}, what...)
		if text, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %v: %w\n%s", what, err, text)
		}
	}
	return run(), nil
}
