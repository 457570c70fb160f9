package workers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/stagefleet/stagefleet/demo/sample"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/pkg/workertest"
	"github.com/stagefleet/stagefleet/workers"
	caption "github.com/stagefleet/stagefleet/workers/caption/handler"
	compile "github.com/stagefleet/stagefleet/workers/compile/handler"
	highlight "github.com/stagefleet/stagefleet/workers/highlight/handler"
	identify "github.com/stagefleet/stagefleet/workers/identify/handler"
	ingest "github.com/stagefleet/stagefleet/workers/ingest/handler"
	publish "github.com/stagefleet/stagefleet/workers/publish/handler"
	transcribe "github.com/stagefleet/stagefleet/workers/transcribe/handler"
)

// fleet runs the seven real handlers in this process.
func fleet(t *testing.T) *workertest.Fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the real tools")
	}
	return workertest.Pipeline(t, workertest.Options{
		Stages: workers.Stages.Scaled(stage.LocalScale),
		Programs: []worker.Program{
			worker.Define("ingest", ingest.New), worker.Define("transcribe", transcribe.New),
			worker.Define("identify", identify.New), worker.Define("highlight", highlight.New),
			worker.Define("caption", caption.New), worker.Define("compile", compile.New), worker.Define("publish", publish.New),
		},
		Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
	})
}

func TestARecordingBecomesClipsInOneProcess(t *testing.T) {
	f := fleet(t)
	file := filepath.Join(t.TempDir(), "talk.mp4")
	truth, err := sample.Generate(t.Context(), []sample.Turn{
		{Name: "John Carter", Title: "Planning Director", Voice: "rms", Words: "hello everybody my name is John Carter and today we discuss the river bridge"},
		{Name: "Mary Wilson", Title: "Chief Engineer", Voice: "slt", Words: "good evening my name is Mary Wilson and the water under the bridge is rising every winter"},
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	source := recording.Source{V: recording.Version, Object: f.Objects.PutFile("inbox/"+workertest.Tenant+"/talk.mp4", file), Name: "talk.mp4"}
	j := f.Wait(f.Submit("talk", 0, source).ID)
	if j.State != job.Completed || j.Result == nil || !j.Current {
		t.Fatalf("%s because of %+v, steps %+v", j.State, j.Reason, j.Steps)
	}
	var manifest any
	if err := json.Unmarshal(f.Objects.Get(recording.Object{Key: j.Result.Manifest}), &manifest); err != nil {
		t.Errorf("the manifest of a result cannot be read: %v", err)
	}
	clips := 0
	var worked []string
	for _, s := range j.Steps {
		if !slices.Contains(worked, s.Stage) {
			worked = append(worked, s.Stage)
		}
		if s.Attempts != 1 || s.State != job.Completed {
			t.Errorf("%s: %s after %d attempts", s.Stage, s.State, s.Attempts)
		}
		for _, a := range s.History {
			for _, tool := range a.Tools {
				if !declared(t, s.Stage, tool.Tool) {
					t.Errorf("%s ran %s, which scripts/tools.txt does not give it", s.Stage, tool.Tool)
				}
			}
		}
		if s.Stage == "compile" {
			clips++
			if len(s.History) != 1 || len(s.History[0].Tools) == 0 {
				t.Errorf("the tools of a clip are not in its record: %+v", s.History)
			}
		}
	}
	if clips == 0 {
		t.Errorf("no clip of a recording with %d turns", len(truth.Turns))
	}
	if len(worked) != len(workers.Stages) {
		t.Errorf("of %d stages only %v had work", len(workers.Stages), worked)
	}
	t.Logf("stages worked: %s", strings.Join(worked, " "))
}

func TestTextIsRefusedWithASentence(t *testing.T) {
	f := fleet(t)
	source := recording.Source{V: recording.Version, Object: f.Objects.Put("inbox/"+workertest.Tenant+"/notes.txt", []byte("no recording at all\n")), Name: "notes.txt"}
	j := f.Wait(f.Submit("notes", 0, source).ID)
	if j.State != job.Rejected || j.Reason == nil || j.Reason.Sentence == "" {
		t.Errorf("%s because of %+v", j.State, j.Reason)
	}
	for _, s := range f.Stages() {
		if s.DLQ != 0 {
			t.Errorf("%d dead letters of %s", s.DLQ, s.Name)
		}
	}
}

func TestADamagedRecordingEndsWithGapsAndWithoutDeadLetters(t *testing.T) {
	f := fleet(t)
	file := filepath.Join(t.TempDir(), "talk.mp4")
	if _, err := sample.Generate(t.Context(), []sample.Turn{
		{Name: "John Carter", Title: "Planning Director", Voice: "rms", Words: "hello everybody my name is John Carter and today we discuss the river bridge"},
		{Name: "Mary Wilson", Title: "Chief Engineer", Voice: "slt", Words: "good evening my name is Mary Wilson and the water under the bridge is rising every winter"},
	}, file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, 1))
	for _, percent := range []int{45, 85} {
		content := slices.Clone(whole)
		for at := bytes.Index(content, []byte("mdat")) + 4; at < len(content); at += 64 {
			if dice.IntN(100) >= percent {
				continue
			}
			for i := at; i < min(at+64, len(content)); i++ {
				content[i] = byte(dice.Uint32())
			}
		}
		name := fmt.Sprintf("ruin%d", percent)
		source := recording.Source{V: recording.Version, Object: f.Objects.Put("inbox/"+workertest.Tenant+"/"+name+".mp4", content), Name: name + ".mp4"}
		if j := f.Wait(f.Submit(name, 0, source).ID); j.State != job.CompletedWithGaps && j.State != job.Rejected {
			t.Errorf("%d %%: %s because of %+v, steps %+v", percent, j.State, j.Reason, j.Steps)
		} else {
			t.Logf("%d %%: %s, %+v", percent, j.State, j.Gaps)
		}
	}
	for _, s := range f.Stages() {
		if s.DLQ != 0 {
			t.Errorf("%d dead letters of %s", s.DLQ, s.Name)
		}
	}
}
