//go:build containers

package docker_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/workers"
)

// smallImage is what the image of a worker without tools stays below.
const smallImage = 40_000_000

// toolsOf are the Debian packages of each stage, as scripts/tools.txt names them.
func toolsOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../scripts/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):(.*)$`).FindAllStringSubmatch(string(text), -1) {
		tools[m[1]] = strings.Fields(m[2])
	}
	for _, s := range workers.Stages {
		if _, ok := tools[s.Name]; !ok {
			t.Fatalf("%s is not in the list", s.Name)
		}
	}
	return tools
}

func TestEveryImageStartsItsBinaryItselfAndNotAsRoot(t *testing.T) {
	docker := daemon(t)
	for name, binary := range programs() {
		image, err := docker.ImageInspect(t.Context(), "stagefleet/"+name)
		if err != nil {
			t.Fatal(err)
		}
		c := image.Config
		if c.User != infra.User || !slices.Equal(c.Entrypoint, []string{binary}) || c.Healthcheck == nil || !slices.Equal(c.Healthcheck.Test, []string{"CMD", binary, "health"}) {
			t.Errorf("%s: user %q, entry point %q, health check %+v", name, c.User, c.Entrypoint, c.Healthcheck)
		}
		if _, writable := c.Volumes[infra.ScratchPath]; !writable || len(c.Volumes) != 1 {
			t.Errorf("%s: volumes %v, want %s alone", name, c.Volumes, infra.ScratchPath)
		}
	}
}

// programs are the services that run programs of ours, and where their images have them.
func programs() map[string]string {
	all := map[string]string{"fleet": "/app/fleet"}
	for _, s := range workers.Stages {
		all[s.Name] = "/app/worker"
	}
	return all
}

func TestAnImageWithoutToolsIsSmallAndHoldsNothingButItsBinary(t *testing.T) {
	docker, n := daemon(t), 0
	for stage, tools := range toolsOf(t) {
		if len(tools) > 0 || fleet.running[stage] == nil {
			continue
		}
		n++
		image, err := docker.ImageInspect(t.Context(), "stagefleet/"+stage)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MB", stage, float64(image.Size)/1e6)
		if image.Size >= smallImage {
			t.Errorf("%s has %d bytes, must be below %d", stage, image.Size, smallImage)
		}
		if got := filesOf(t, docker, fleet.running[stage][0].ID); !slices.Equal(got, []string{"app/worker", "etc/ssl/certs/ca-certificates.crt"}) {
			t.Errorf("%s holds %q", stage, got)
		}
	}
	if n == 0 {
		t.Error("no stage is without tools, so nothing was looked at")
	}
}

// filesOf lists the files of a container that have something in them; Docker adds empty ones.
func filesOf(t *testing.T, docker client.APIClient, id string) []string {
	t.Helper()
	archive, err := docker.ContainerExport(t.Context(), id, client.ContainerExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	var files []string
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(files)
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && h.Size > 0 {
			files = append(files, h.Name)
		}
	}
}

func TestAnImageWithToolsHasThoseOfItsStageAndNoOthers(t *testing.T) {
	all := toolsOf(t)
	for stage, tools := range all {
		if len(tools) == 0 || fleet.running[stage] == nil {
			continue
		}
		ctr := fleet.running[stage][0]
		installed := strings.Fields(in(t, ctr, "dpkg-query", "-W", "-f", "${Package}\n"))
		asked := strings.Fields(in(t, ctr, "apt-mark", "showmanual")) // the others are what these need
		for other, packages := range all {
			for _, p := range packages {
				switch wanted := slices.Contains(tools, p); {
				case wanted && !slices.Contains(installed, p):
					t.Errorf("%s lacks %s", stage, p)
				case !wanted && slices.Contains(asked, p):
					t.Errorf("%s has %s, a tool of %s", stage, p, other)
				}
			}
		}
	}
}

// in runs a command in a container and returns what it says; it fails the test if the command fails.
func in(t *testing.T, ctr *testcontainers.DockerContainer, words ...string) string {
	t.Helper()
	code, out, err := ctr.Exec(t.Context(), words, exec.Multiplexed())
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil || code != 0 {
		t.Fatalf("%q = %d: %s, %v", words, code, text, err)
	}
	return strings.TrimSpace(string(text))
}

func TestAWorkerIsNobodyAndWritesOnlyWhereItMay(t *testing.T) {
	docker := daemon(t)
	for name := range programs() {
		if name == "fleet" {
			name = "server"
		}
		top, err := docker.ContainerTop(t.Context(), fleet.running[name][0].ID, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,uid,args"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, process := range top.Processes {
			if process[slices.Index(top.Titles, "UID")] != strings.Split(infra.User, ":")[0] {
				t.Errorf("%s runs %q", name, process)
			}
		}
		if len(top.Processes) == 0 {
			t.Errorf("%s runs nothing", name)
		}
	}
	tried := in(t, fleet.running["compile"][0], "sh", "-c", `for d in / /app /etc /var/tmp /usr /tmp /data; do touch $d/x 2>/dev/null && echo $d && rm $d/x; done; grep CapEff /proc/self/status`)
	if got := strings.Fields(tried); !slices.Equal(got, []string{"/tmp", "/data", "CapEff:", "0000000000000000"}) {
		t.Errorf("may write to, and its capabilities: %q", got)
	}
}

func TestEveryServiceSaysThatItIsHealthyByItsOwnCommand(t *testing.T) {
	for name, s := range fleet.services {
		if s.Healthcheck.Disable {
			continue
		}
		for limit := time.Now().Add(time.Minute); ; <-time.After(time.Second) {
			state, err := fleet.running[name][0].State(t.Context())
			if err != nil || state.Health == nil {
				t.Fatalf("%s: no health, %v", name, err)
			}
			if state.Health.Status == "healthy" {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s is %s: %+v", name, state.Health.Status, *state.Health.Log[len(state.Health.Log)-1])
			}
		}
	}
}
