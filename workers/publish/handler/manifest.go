package handler

import (
	"github.com/stagefleet/stagefleet/pkg/media"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
)

// Manifest is manifest.json. Its shape is for programs outside: fields are added, never renamed.
type Manifest struct {
	V          int                 `json:"v"`
	Job        string              `json:"job"`
	Target     string              `json:"target"`
	Version    int64               `json:"version"`
	Title      string              `json:"title"`
	Summary    string              `json:"summary"`
	Recording  Recording           `json:"recording"`
	Engine     string              `json:"engine"`     // what recognised the words
	Words      int                 `json:"words"`      // how many
	Confidence float64             `json:"confidence"` // their mean, 0 to 1
	Speakers   []recording.Speaker `json:"speakers"`
	Gaps       []Gap               `json:"gaps"`
	Clips      []Clip              `json:"clips"`
	Tools      map[string]string   `json:"tools"` // version by name
	Files      []File              `json:"files"` // all of the folder but the manifest itself
}

// Recording is what was submitted.
type Recording struct {
	Name   string          `json:"name"`
	SHA256 string          `json:"sha256"`
	Bytes  int64           `json:"bytes"`
	Format string          `json:"format"`
	Facts  recording.Facts `json:"facts"`
}

// Gap is something that the result lacks.
type Gap struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
}

// Clip is one clip as ffprobe sees it.
type Clip struct {
	File       string            `json:"file"`
	Title      string            `json:"title"`
	Segment    recording.Segment `json:"segment"` // in the recording
	DurationMs int64             `json:"durationMs"`
	Width      int               `json:"width"`
	Height     int               `json:"height"`
	VideoCodec string            `json:"videoCodec"`
	AudioCodec string            `json:"audioCodec"` // empty without sound
	Cues       []recording.Cue   `json:"cues"`       // burned into the picture
}

// File is one file of the folder.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Type   string `json:"type"`
}

func describe(t task, tools map[string]string) Manifest {
	head := t.Input.Head
	m := Manifest{
		V: recording.Version, Job: t.Job, Target: t.Target, Version: t.Version, Title: head.Title, Summary: head.Summary,
		Recording: Recording{
			Name: head.Media.Name, SHA256: head.Media.Source.SHA256, Bytes: head.Media.Source.Bytes,
			Format: head.Media.Demuxer, Facts: head.Media.Facts,
		},
		Engine: head.Engine, Words: head.Count, Confidence: head.Confidence,
		Speakers: append([]recording.Speaker{}, head.Speakers...), Gaps: gaps(t.Gaps), Clips: []Clip{}, Tools: tools,
	}
	return m
}

func gaps(noted []outcome.Gap) []Gap {
	found := []Gap{}
	for _, g := range noted {
		found = append(found, Gap{g.Code, g.Sentence})
	}
	return found
}

func clipEntry(name string, p recording.Clip, probed media.Declared) Clip {
	c := Clip{File: name, Title: p.Title, Segment: p.Segment, DurationMs: probed.Duration.Milliseconds(), Cues: p.Cues}
	if v := probed.Video; v != nil {
		c.Width, c.Height, c.VideoCodec = v.Width, v.Height, v.Codec
	}
	if a := probed.Audio; a != nil {
		c.AudioCodec = a.Codec
	}
	return c
}

func file(path string, obj recording.Object) File {
	return File{Path: path, SHA256: obj.SHA256, Bytes: obj.Bytes, Type: obj.Type}
}
