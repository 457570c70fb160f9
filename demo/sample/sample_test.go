package sample

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestAScriptErrorNamesItsLineInOneSentence(t *testing.T) {
	good := "Ann Lee | Chair | slt | hello\n"
	for name, c := range map[string]struct{ script, want string }{
		"no turns":         {"# only a comment\n\n", "the script has no turns"},
		"missing field":    {good + "Ann Lee | Chair | hello\n", "script line 2: 3 fields"},
		"too many fields":  {good + "\nAnn Lee | Chair | slt | a | b\n", "script line 3: 5 fields"},
		"unknown voice":    {"Ann Lee | Chair | bob | hello\n", `script line 1: the voice "bob" is not one of awb, kal, kal16, rms, slt`},
		"no name":          {" | Chair | slt | hello\n", "script line 1: the name is empty"},
		"no words":         {"Ann Lee | Chair | slt | ...\n", "script line 1: the turn says no words"},
		"not UTF-8":        {"Ann Lee | Chair | slt | \xff\xfe\n", "script line 1: the text is not UTF-8"},
		"name too long":    {strings.Repeat("a", MaxName+1) + "| Chair | slt | hello\n", "script line 1: the name is longer than 40"},
		"title too long":   {"Ann |" + strings.Repeat("a", MaxTitle+1) + "| slt | hello\n", "script line 1: the title is longer than 60"},
		"words too long":   {"Ann | Chair | slt |" + strings.Repeat("a", MaxWords+1) + "\n", "script line 1: the words are longer than 1000"},
		"too many turns":   {strings.Repeat(good, MaxTurns+1), "script line 201: more than 200 turns"},
		"line beyond 64 K": {good + strings.Repeat("a", 70_000), "script line 2: it is longer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(c.script))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q, want one line that begins with %q", err, c.want)
			}
		})
	}
}

func TestAScriptMayCarryCommentsAByteOrderMarkAndAnyText(t *testing.T) {
	turns, err := Parse(strings.NewReader("\ufeff# cast\r\n\r\n José 100% | it's: a [b], c\\d | kal | it costs 5 % more\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Turn{Name: "José 100%", Title: `it's: a [b], c\d`, Voice: "kal", Words: "it costs 5 % more"}
	if len(turns) != 1 || turns[0] != want {
		t.Fatalf("turns %+v, want one: %+v", turns, want)
	}
}

// One recording is generated for all of this, because each takes seconds.
func TestTheTruthDescribesTheRecording(t *testing.T) {
	script := []Turn{
		{Name: "Ann Lee", Title: "", Voice: "slt", Words: "hello there"},
		{Name: "José 100%", Title: `it's: a [b], %{pts} c\d`, Voice: "kal", Words: "good 'morning: 5 %"},
		{Name: "Ann Lee", Title: "Chair", Voice: "slt", Words: "and thank you"},
	}
	out := filepath.Join(t.TempDir(), "sample.mp4")
	truth, err := Generate(t.Context(), script, out)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(truth.Names(), ","); got != "Ann Lee,José 100%" {
		t.Errorf("names %q", got)
	}
	end := int64(0)
	for i, turn := range truth.Turns {
		if turn.StartMs < end || turn.EndMs-turn.StartMs < 300 || turn.Turn != script[i] {
			t.Errorf("turn %d is %+v after one that ended at %d ms", i, turn, end)
		}
		end = turn.EndMs
		if want := i < 2; turn.Banner != want {
			t.Errorf("turn %d has a banner: %t, want %t", i, turn.Banner, want)
		}
	}
	if got := probedMs(t, out); got < truth.DurationMs-100 || got > truth.DurationMs+100 {
		t.Errorf("the file lasts %d ms, the truth says %d ms", got, truth.DurationMs)
	}
	again := filepath.Join(t.TempDir(), "sample.mp4")
	if second, err := Generate(t.Context(), script, again); err != nil || !reflect.DeepEqual(second, truth) || !bytes.Equal(content(t, again), content(t, out)) {
		t.Errorf("the same script gave another recording (%v)", err)
	}
	left, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v (%v), want the recording alone", left, err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func probedMs(t *testing.T, path string) int64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-of", "json", "-show_format", "file:"+path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var facts struct {
		Format struct {
			Duration json.Number `json:"duration"`
		} `json:"format"`
	}
	if err := json.Unmarshal(out, &facts); err != nil {
		t.Fatal(err)
	}
	seconds, err := facts.Format.Duration.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return int64(seconds * 1000)
}
