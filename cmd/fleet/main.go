// Command fleet runs a fleet on one machine, hands work to it and shows what became of it. Each noun is one file here; what
// they do is in pkg/. `fleet help` lists the nouns and the exit codes.
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code. Data goes to stdout, everything else to stderr.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	root := newRoot(getenv)
	root.SetArgs(args)
	out := &output{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		err = out.lost()
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %s\n", advice(err))
	}
	return exitCode(err)
}

// output is where a command's data goes. It remembers that some of it was lost, as on a full disk: a command whose answer
// nobody can read has not done what it was asked.
type output struct {
	io.Writer

	mu  sync.Mutex // guards err
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
	}
	return n, err
}

func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("print the answer: %w", o.err)
}
