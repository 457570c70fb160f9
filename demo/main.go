// Command demo shows a whole fleet at work and measures it: it generates a recording whose words and names are
// known, starts bin/fleet and its seven workers, submits the recording, and compares what comes back, and what
// it cost, with the truth and with the bare tools run by hand.
//
// It exits with 0 only if the result is as good as is promised of the repository's own sample. Times beyond their
// bound are shown as such but fail nothing: they say as much of the machine as of the fleet. With another script
// the numbers are printed without judgement: nobody knows how well a recogniser hears it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

const (
	ownScript = "demo/sample.txt"
	cacheDir  = "build/demo"       // generated recordings
	stateDir  = ".stagefleet/demo" // the fleet's state and the result; made anew by every run
)

func main() {
	runtime.LockOSThread() // the fleet's parent-death signal is tied to the thread that starts it
	script := flag.String("script", ownScript, "script of the recording: one turn a line, `Name | Title | voice | words`")
	baseline := flag.Bool("baseline", false, "only run the bare tools by hand on the same recording")
	bin := flag.String("bin", "bin", "folder of the fleet command, with the workers in workers/")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *script, *bin, *baseline)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, script, bin string, baseline bool) error {
	film, err := prepare(ctx, script)
	if err != nil {
		return err
	}
	if baseline {
		_, err := byHand(ctx, film, film.clips())
		return err
	}
	r, err := throughFleet(ctx, film, bin)
	if err != nil {
		return err
	}
	fmt.Println()
	r.times(os.Stdout)
	fmt.Println("\nThe same by hand, with the bare tools:")
	bare, err := byHand(ctx, film, r.clips())
	if err != nil {
		return err
	}
	checks, err := judge(ctx, film, r, bare)
	if err != nil {
		return err
	}
	fmt.Println()
	holds := report(os.Stdout, checks, filepath.Clean(script) == ownScript)
	fmt.Printf("\nresult    %s\nopen      %s\n", r.folder, filepath.Join(r.folder, "index.html"))
	if !holds {
		return errors.New("not every number holds")
	}
	return nil
}
