package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/compose"
	"github.com/stagefleet/stagefleet/workers"
)

func TestTheComposeFileIsWhatTheManifestSays(t *testing.T) {
	want, err := compose.File(workers.Stages)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docker/compose.yaml")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docker/compose.yaml is of another manifest (%v); run: go run ./cmd/fleet compose", err)
	}
}

// packagesOf reads scripts/tools.txt.
func packagesOf(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile("../../scripts/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):(.*)$`).FindAllStringSubmatch(string(raw), -1) {
		all[m[1]] = strings.Fields(m[2])
	}
	return all
}

func TestEveryStageHasALineInTheListOfTools(t *testing.T) {
	listed := packagesOf(t)
	for _, s := range workers.Stages {
		if _, ok := listed[s.Name]; !ok {
			t.Errorf("scripts/tools.txt has no line for %s: name the Debian packages that it runs, or none", s.Name)
		}
		delete(listed, s.Name)
	}
	delete(listed, "sample")
	for name := range listed {
		t.Errorf("scripts/tools.txt has a line for %s, which is no stage", name)
	}
}

func TestBothDockerfilesBuildTheProgramsByTheSameText(t *testing.T) {
	build := regexp.MustCompile(`(?s)# The same text in both Dockerfiles.*?\n\n`)
	var texts []string
	for _, name := range []string{"worker.Dockerfile", "fleet.Dockerfile"} {
		raw, err := os.ReadFile(filepath.Join("../../docker", name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, build.FindString(string(raw)))
	}
	if texts[0] == "" || texts[0] != texts[1] {
		t.Error("the programs would be built twice")
	}
}
