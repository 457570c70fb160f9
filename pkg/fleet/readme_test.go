package fleet

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walk is the block of commands below the README's heading.
var walk = regexp.MustCompile("(?s)\n## Over HTTP\n.*?\n```sh\n(.*?)\n```\n")

func TestTheReadmesWalkOverHTTPLeadsWhereItSays(t *testing.T) {
	for _, tool := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(tool); errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
			t.Skipf("%s is not installed", tool)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := walk.FindSubmatch(readme)
	if found == nil {
		t.Fatal("the README has no such commands")
	}
	r := run(t, local(t, t.TempDir(), "idle"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "talk.mp4"), bytes.Repeat([]byte("talk "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", string(found[1]))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "FLEET=http://"+r.addr)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for _, want := range []string{`"accepted": true`, `"state": "queued"`, "event: job", "\n1\n", "\n1000\n", "true", `"queued"`, `"code":"no_result"`} {
		before, after, there := strings.Cut(rest, want)
		if !there {
			t.Fatalf("no %q after what came before it:\n%s", want, out)
		}
		_, rest = before, after
		if strings.HasSuffix(want, "\n") {
			rest = "\n" + rest
		}
	}
}
