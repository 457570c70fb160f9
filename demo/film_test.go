package main

import (
	"os"
	"testing"
)

func TestARecordingIsGeneratedOncePerScript(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prepared := func(name string) (film, os.FileInfo) {
		f, err := prepare(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(f.path)
		if err != nil {
			t.Fatal(err)
		}
		return f, info
	}
	write("a.txt", "Ann Lee | Chair | slt | hello there\n")
	first, made := prepared("a.txt")
	second, kept := prepared("a.txt")
	if second.path != first.path || !os.SameFile(made, kept) || second.truth.DurationMs != first.truth.DurationMs {
		t.Errorf("the second run took %s, the first made %s", second.path, first.path)
	}
	write("a.txt", "Ann Lee | Chair | slt | good day\n")
	if changed, _ := prepared("a.txt"); changed.path == first.path || changed.truth.Words() != "good day" {
		t.Errorf("after a change the recording is still %s", changed.path)
	}
	write("b.txt", "Ann Lee | Chair | slt | hello there\n")
	if other, _ := prepared("b.txt"); other.path == first.path {
		t.Error("two scripts share one recording under one name")
	}
	if clips := first.clips(); len(clips) != 1 || len(clips[0].Cues) != 2 || clips[0].EndMs != first.truth.Turns[0].EndMs {
		t.Errorf("clips by hand %+v", clips)
	}
}

func TestAScriptThatCannotBeReadIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"bars.txt": "Ann Lee | hello\n", "": ""} {
		if name != "" {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := prepare(t.Context(), name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}
