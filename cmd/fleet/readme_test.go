package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^ *```\\w*\n(.*?)^ *```")
	inFence = regexp.MustCompile(`(?m)^ *(?:\$ )?(?:bin/)?fleet( .*)?$`)
	inText  = regexp.MustCompile("`(?:bin/)?fleet( [^`]*)?`")
	quoted  = regexp.MustCompile(`'[^']*'`)
)

// understands checks that a command line names a command and flags that exist, and with whole that its arguments are right.
func understands(t *testing.T, line string, whole bool) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	args := strings.Fields(quoted.ReplaceAllString(line, "quoted"))
	root := newRoot(func(string) string { return "" })
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		t.Errorf("fleet%s: there is no such command", line)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("fleet%s: %v", line, err)
		return
	}
	if cmd.Args != nil && (whole || cmd.HasSubCommands()) {
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("fleet%s: %v", line, err)
		}
	}
}

func TestEveryCommandLineOfTheREADMEIsUnderstood(t *testing.T) {
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, block := range fenced.FindAllStringSubmatch(string(raw), -1) {
		for _, m := range inFence.FindAllStringSubmatch(block[1], -1) {
			understands(t, m[1], true)
			lines++
		}
	}
	for _, m := range inText.FindAllStringSubmatch(fenced.ReplaceAllString(string(raw), ""), -1) {
		understands(t, m[1], false)
		lines++
	}
	if lines < 25 {
		t.Errorf("%d command lines found", lines)
	}
}

func TestEveryExampleOfTheHelpIsUnderstood(t *testing.T) {
	left := newRoot(func(string) string { return "" }).Commands()
	for len(left) > 0 {
		cmd := left[0]
		left = append(left[1:], cmd.Commands()...)
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			for command := range strings.SplitSeq(line, " && ") {
				understands(t, strings.TrimPrefix(command, "fleet"), true)
			}
		}
	}
}
