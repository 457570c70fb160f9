package main

import (
	"context"
	_ "embed" // the tools by hand
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stagefleet/stagefleet/pkg/recording"
)

//go:embed baseline.sh
var byHandScript string

// clip is a clip to make by hand.
type clip struct {
	recording.Segment
	Cues []recording.Cue
}

// byHand does the stages' work with the bare tools and returns the CPU time that took.
func byHand(ctx context.Context, f film, clips []clip) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "by-hand-")
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	var list strings.Builder
	for i, c := range clips {
		fmt.Fprintf(&list, "%d %.3f %.3f\n", i+1, float64(c.StartMs)/1000, float64(c.EndMs-c.StartMs)/1000)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.srt", i+1)), []byte(recording.SRT(c.Cues)), 0o600); err != nil {
			return 0, fmt.Errorf("write captions: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "clips.txt"), []byte(list.String()), 0o600); err != nil {
		return 0, fmt.Errorf("write the list of clips: %w", err)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", byHandScript, "by-hand", f.path, fmt.Sprintf("%.3f", float64(f.truth.DurationMs)/1000*0.4))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	start, before := time.Now(), childrenCPU()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("run the tools by hand: %w", err)
	}
	cpu := childrenCPU() - before
	fmt.Printf("by hand   %.1f CPU seconds, %.1f s\n", cpu.Seconds(), time.Since(start).Seconds())
	return cpu, nil
}

// childrenCPU is the CPU time of all descendants that have ended and were waited for.
func childrenCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0 // cannot happen: both arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
