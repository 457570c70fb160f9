package workers_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/workers"
)

// TestTheReadmeNamesWhatThereIs keeps the lists of the README equal to the code's.
func TestTheReadmeNamesWhatThereIs(t *testing.T) {
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(raw)
	at := 0
	for _, s := range workers.Stages {
		box := strings.Index(readme[at:], " "+s.Name+" ")
		if box < 0 {
			t.Fatalf("the picture lacks %s, or has it out of order", s.Name)
		}
		at += box
	}
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`FLEET_(SPEECH|ANTHROPIC)\w+`).FindAllString(readme, -1) {
		told[name] = true
	}
	for _, name := range provider.Variables() {
		if !told[name] {
			t.Errorf("the variable %s is not told", name)
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("the variable %s does not exist", name)
	}
}

// TestTheReadmeNamesTargetsThatExist holds the commands of the README against the Makefile.
func TestTheReadmeNamesTargetsThatExist(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)[`^]make ([a-z-]+)").FindAllStringSubmatch(string(readme), -1) {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:.*## `).Match(makefile) {
			t.Errorf("make %s is no target, or has no help", m[1])
		}
	}
}
