package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pagesOfDeploy returns the text of every page under deploy/, by its path.
func pagesOfDeploy(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		pages[path] = string(text)
		return err
	})
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	return pages
}

// commandsOf finds the fleet commands of a page, in blocks and in the text.
func commandsOf(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile("(?m)^(fleet [^`\n]*)$|`(fleet [^`]*)`").FindAllStringSubmatch(page, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

var quotedWord = regexp.MustCompile(`"[^"]*"|\S+`)

// check tells whether the command line would be understood.
func check(line string) error {
	args := quotedWord.FindAllString(line, -1)[1:]
	root := newRoot(func(string) string { return "" })
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !cmd.Runnable() || cmd == root {
		return errors.New("it is not a command by itself")
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestEveryCommandInTheRunbooksIsUnderstood(t *testing.T) {
	n := 0
	for path, page := range pagesOfDeploy(t) {
		for _, line := range commandsOf(page) {
			n++
			if strings.HasSuffix(line, "fleet keys") || line == "fleet pause" {
				continue // the noun itself
			}
			if err := check(line); err != nil {
				t.Errorf("%s: `%s`: %v", path, line, err)
			}
		}
	}
	t.Logf("%d commands", n)
	if n < 40 {
		t.Errorf("%d commands were found, which are too few to be all", n)
	}
	for _, line := range []string{"fleet dlq lss", "fleet dlq ls --stages x", "fleet resume", "fleet generate --dir x"} {
		if check(line) == nil {
			t.Errorf("`%s` passes the check", line)
		}
	}
}

func TestEveryLinkInTheRunbooksLeadsToAFile(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	for path, page := range pagesOfDeploy(t) {
		if filepath.Base(filepath.Dir(path)) == "runbooks" && !strings.Contains(page, "\n## Do this first\n") {
			t.Errorf("%s has not the heading that alarms lead to", path)
		}
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			if strings.HasPrefix(m[1], "https:") || strings.HasPrefix(m[1], "../docker") {
				continue // images have pages of their own
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s leads to %s: %v", path, m[1], err)
			}
		}
	}
}
