// Package mediatest lets a test decide how a tool ends: it puts a script in the tool's place.
package mediatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Instead has a shell script run in the place of a tool until the test ends; in it, $REAL is the tool. Like t.Setenv it
// cannot be used in parallel tests.
func Instead(t *testing.T, tool, script string) {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\nREAL="+path+"\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}
