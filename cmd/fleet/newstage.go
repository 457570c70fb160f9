package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/scaffold"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

const newStageHelp = `new-stage adds a stage to the source tree that it is run in: workers/NAME with main.go, handler and test, the type that
it puts out with its fixture in pkg/recording, its entry in workers/stages.go, the tests' list of programs, the list
of tools, and what is generated from the manifest. The handler passes on what comes in until you fill it.
All is written, or nothing; what exists is never overwritten.`

func newNewStage() *cobra.Command {
	var s scaffold.Stage
	var dir, queue string
	cmd := &cobra.Command{
		Use: "new-stage NAME", Short: "Add a stage to the source tree", Long: newStageHelp, Args: usage(cobra.ExactArgs(1)),
		Example: "  fleet new-stage review --after highlight --queue fifo",
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Name, s.Queue = args[0], stage.Kind(queue)
			if s.Queue != stage.FIFO && s.Queue != stage.Standard {
				return usageError{fmt.Errorf("--queue is %q, must be fifo or standard", queue)}
			}
			if s.After == "" {
				return usageError{fmt.Errorf("--after is missing: name the stage that %s follows", s.Name)}
			}
			start := time.Now()
			root, err := scaffold.Root(dir)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) // what is half written is taken back
			defer stop()
			made, err := scaffold.Add(root, s, func() error { return generate(ctx, root) })
			if err != nil {
				return err
			}
			return tellNewStage(cmd.OutOrStdout(), s, made, time.Since(start))
		},
	}
	cmd.Flags().StringVar(&s.After, "after", "", "the stage that it follows")
	cmd.Flags().StringVar(&queue, "queue", string(stage.FIFO), "fifo: one message of a recording at a time; standard: no order")
	cmd.Flags().StringVar(&dir, "dir", ".", "a folder of the source tree")
	return cmd
}

// generate makes what is generated from the manifest again, by the tree's own command: this program's manifest lacks the
// new stage. It first writes elsewhere, so that a manifest that cannot be generated from leaves everything as it was; from
// then on an interruption comes too late.
func generate(ctx context.Context, root string) error {
	scratch, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	command := filepath.Join(scratch, "fleet")
	steps := [][]string{{"go", "build", "-o", command, "./cmd/fleet"}, {command, "compose", "--out", filepath.Join(scratch, "compose.yaml")}}
	final := [][]string{{command, "compose"}}
	if _, err := os.Stat(filepath.Join(root, "deploy")); err == nil {
		steps = append(steps, []string{command, "generate", "--out", filepath.Join(scratch, "deploy")})
		final = append(final, []string{command, "generate"})
	}
	for _, words := range steps {
		if err := runIn(ctx, root, words); err != nil {
			return err
		}
	}
	for _, words := range final {
		if err := runIn(context.WithoutCancel(ctx), root, words); err != nil {
			return err
		}
	}
	return nil
}

// runIn runs a command that a terminal's Ctrl-C reaches through ctx alone.
func runIn(ctx context.Context, dir string, words []string) error {
	run := exec.CommandContext(ctx, words[0], words[1:]...)
	run.Dir, run.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	said, err := run.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return fmt.Errorf("nothing was kept, because `%s %s` failed with the new stage: %w\n%s", filepath.Base(words[0]), words[1], err, said)
	}
	return nil
}

func tellNewStage(w io.Writer, s scaffold.Stage, made scaffold.Made, took time.Duration) error {
	picture, err := scaffold.Picture(made.Pipeline, s.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Stage %s is in the tree (%v).\n\n%s\nWritten:\n", s.Name, took.Round(10*time.Millisecond), picture)
	for _, f := range made.Files {
		fmt.Fprintf(w, "  %s\n", f)
	}
	fmt.Fprintf(w, `
Left to do:
  1. Say in workers/stages.go what the stage does, and what it may use: slots, tasks, time limit, CPU, memory.
     ReadsOnly goes as soon as the handler makes objects: with it, its role in AWS may write none.
  2. Write the work into workers/%[1]s/handler/handler.go. What it finds out goes into recording.%[2]s; a later
     stage sees it when its own input is of that type.
  3. Name the Debian packages that it runs, if any, in scripts/tools.txt.
  4. Draw it into the picture in README.md.
  5. make test PKG=./workers/%[1]s/... && make verify; then try it: bin/fleet up
`, s.Name, made.Type)
	return nil
}
