// Command fleet runs a fleet on one machine, hands work to it and shows what became of it. Each noun is one file here; what
// they do is in pkg/. `fleet help` lists the nouns and the exit codes.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code. Data goes to stdout, everything else to stderr.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	root := newRoot(getenv)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %s\n", advice(err))
	}
	return exitCode(err)
}
