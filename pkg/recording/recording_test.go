package recording

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// shapes are all released shapes by the name of their fixture. A fixture is never edited; a new shape gets a new one.
var shapes = map[string]func() any{
	"source":           func() any { return new(Source) },
	"media":            func() any { return new(Media) },
	"media_sound_only": func() any { return new(Media) },
	"transcribed":      func() any { return new(Transcribed) },
	"identified":       func() any { return new(Identified) },
	"highlighted":      func() any { return new(Highlighted) },
	"captioned":        func() any { return new(Captioned) },
	"clip_order":       func() any { return new(ClipOrder) },
	"clip_unmade":      func() any { return new(Clip) },
	"clip":             func() any { return new(Clip) },
	"assembly":         func() any { return new(Assembly) },
	"result":           func() any { return new(Result) },
	"words":            func() any { return new([]Word) },
	"turns":            func() any { return new([]Turn) },
	"transcript":       func() any { return new(Transcript) },
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "v1", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestEveryReleasedShapeIsStillRead(t *testing.T) {
	for name, empty := range shapes {
		t.Run(name, func(t *testing.T) {
			content := fixture(t, name)
			value := empty()
			if err := json.Unmarshal(content, value); err != nil {
				t.Fatal(err)
			}
			if v, ok := value.(interface{ Validate() error }); ok {
				if err := v.Validate(); err != nil {
					t.Fatal(err)
				}
			}
			again, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := errors.Join(json.Unmarshal(content, &want), json.Unmarshal(again, &got)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("something was lost or added:\n%s", again)
			}
		})
	}
}

func TestEveryFixtureIsRead(t *testing.T) {
	files, err := os.ReadDir(filepath.Join("testdata", "v1"))
	if err != nil || len(files) != len(shapes) {
		t.Fatalf("%d fixtures for %d shapes, %v", len(files), len(shapes), err)
	}
}

func TestFieldsOfALaterReleaseAreIgnored(t *testing.T) {
	content := strings.Replace(string(fixture(t, "media")), "{", `{"later":{"a":1},`, 1)
	var m Media
	if err := json.Unmarshal([]byte(content), &m); err != nil || m.Validate() != nil {
		t.Fatalf("got %v, %v", err, m.Validate())
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	for name, empty := range shapes {
		value, ok := empty().(interface{ Validate() error })
		if !ok {
			continue
		}
		content := strings.Replace(string(fixture(t, name)), `"v": 1`, `"v": 2`, 1)
		if err := json.Unmarshal([]byte(content), value); err != nil {
			t.Fatal(err)
		}
		if err := value.Validate(); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// broken decodes a fixture, changes it and validates it.
func broken[T interface{ Validate() error }](t *testing.T, name string, change func(*T)) error {
	t.Helper()
	var value T
	if err := json.Unmarshal(fixture(t, name), &value); err != nil {
		t.Fatal(err)
	}
	change(&value)
	return value.Validate()
}

func TestWhatAReaderCannotRelyOnIsNamed(t *testing.T) {
	const canary = "canary-zanzibar"
	for field, err := range map[string]error{
		"object.key":            broken(t, "source", func(s *Source) { s.Object.Key = "" }),
		"object.sha256":         broken(t, "source", func(s *Source) { s.Object.SHA256 = strings.ToUpper(s.Object.SHA256); s.Name = canary }),
		"object.bytes":          broken(t, "source", func(s *Source) { s.Object.Bytes = -1 }),
		"demuxer":               broken(t, "media", func(m *Media) { m.Demuxer = "" }),
		"facts.durationMs":      broken(t, "media", func(m *Media) { m.Facts.DurationMs = 0 }),
		"facts.width":           broken(t, "media", func(m *Media) { m.Facts.Height = 0 }),
		"facts.hasVideo":        broken(t, "media", func(m *Media) { m.Facts.HasVideo, m.Facts.HasAudio = false, false }),
		"facts.stillImage":      broken(t, "media", func(m *Media) { m.Facts.StillImage = true }),
		"facts.rotation":        broken(t, "media", func(m *Media) { m.Facts.Rotation = 45 }),
		"audio":                 broken(t, "media", func(m *Media) { m.Audio = nil }),
		"audio.sha256":          broken(t, "media", func(m *Media) { m.Audio.SHA256 = "x" }),
		"posters[0].key":        broken(t, "media", func(m *Media) { m.Posters[0].Key = "" }),
		"speech[1].endMs":       broken(t, "media", func(m *Media) { m.Speech[1].EndMs = m.Speech[1].StartMs }),
		"speech[0].startMs":     broken(t, "media", func(m *Media) { m.Speech[0].StartMs = -1 }),
		"media.source.key":      broken(t, "transcribed", func(r *Transcribed) { r.Media.Source.Key = "" }),
		"engine":                broken(t, "transcribed", func(r *Transcribed) { r.Engine = "" }),
		"confidence":            broken(t, "transcribed", func(r *Transcribed) { r.Confidence = 1.01 }),
		"count":                 broken(t, "transcribed", func(r *Transcribed) { r.Count = -1 }),
		"speakers[0].evidence":  broken(t, "identified", func(i *Identified) { i.Speakers[0].Evidence = "" }),
		"speakers[0].name":      broken(t, "identified", func(i *Identified) { i.Speakers[0].Name = "" }),
		"speakers[1].name":      broken(t, "identified", func(i *Identified) { i.Speakers[1].Name = canary }),
		"speakers[1].id":        broken(t, "identified", func(i *Identified) { i.Speakers[1].ID = "" }),
		"lowerThirds[0].endMs":  broken(t, "identified", func(i *Identified) { i.LowerThirds[0].EndMs = 0; i.LowerThirds[0].Text = canary }),
		"turns.key":             broken(t, "identified", func(i *Identified) { i.Turns.Key = "" }),
		"segments[0].endMs":     broken(t, "highlighted", func(h *Highlighted) { h.Segments[0].EndMs = 0 }),
		"vtt.key":               broken(t, "captioned", func(c *Captioned) { c.VTT.Key = "" }),
		"still":                 broken(t, "clip_order", func(o *ClipOrder) { o.Facts.HasVideo, o.Facts.StillImage = false, true }),
		"cues[0].lines":         broken(t, "clip_order", func(o *ClipOrder) { o.Cues[0].Lines = []string{canary, "", ""} }),
		"index":                 broken(t, "clip_order", func(o *ClipOrder) { o.Index = -1 }),
		"durationMs":            broken(t, "clip", func(c *Clip) { c.DurationMs = 0 }),
		"parts[0].video.sha256": broken(t, "assembly", func(a *Assembly) { a.Parts[0].Video.SHA256 = "" }),
		"head.srt.key":          broken(t, "assembly", func(a *Assembly) { a.Head.SRT.Key = "" }),
		"clips":                 broken(t, "result", func(r *Result) { r.Clips = -1 }),
	} {
		var f *FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: got %v", field, err)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error quotes the value: %v", field, err)
		}
	}
}

func TestALineMayHaveAsManyCharactersAsFitNotBytes(t *testing.T) {
	fits := strings.Repeat("ß", CueColumns)
	if err := broken(t, "clip", func(c *Clip) { c.Cues[0].Lines = []string{fits} }); err != nil {
		t.Error(err)
	}
	if err := broken(t, "clip", func(c *Clip) { c.Cues[0].Lines = []string{fits + "ß"} }); err == nil {
		t.Error("a line of 43 characters was accepted")
	}
}

func FuzzAssembly(f *testing.F) {
	for _, name := range []string{"assembly"} {
		f.Add(fixture(f, name))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var a Assembly
		if json.Unmarshal(content, &a) != nil || a.Validate() != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var b Assembly
		if err := json.Unmarshal(again, &b); err != nil || b.Validate() != nil {
			t.Fatalf("valid once, not twice: %v, %v", err, b.Validate())
		}
	})
}
