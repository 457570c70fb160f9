// Package workers holds the manifest of the pipeline that ships: what its stages
// are, how they follow each other and what each may use. The fleet command and
// the generators read it; a worker never does, it is told its own part.
package workers

import (
	"time"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Stages is the manifest. A recording becomes captioned clips of its highlights.
var Stages = stage.Pipeline{
	{
		Name: "ingest", Summary: "validate and probe the recording, extract its sound and poster frames",
		Next:    "transcribe",
		Profile: stage.Profile{Slots: 1, MinTasks: 1, MaxTasks: 4, TimeLimit: time.Hour, Typical: time.Minute, CPU: 1024, Memory: 2048},
	},
	{
		Name: "transcribe", Summary: "turn speech into timed words",
		Next:      "identify",
		Providers: []string{"speech"},
		Profile:   stage.Profile{Slots: 2, MinTasks: 1, MaxTasks: 8, Ceiling: 16, TimeLimit: 90 * time.Minute, Typical: 5 * time.Minute, Objective: 30 * time.Minute, CPU: 2048, Memory: 4096, IOBound: true},
		Breaker:   stage.Breaker{Window: 2 * time.Minute, CallTime: 30 * time.Second},
	},
	{
		Name: "identify", Summary: "find out who speaks: introductions, names on screen, pitch, a vision model at the end",
		Next:      "highlight",
		Providers: []string{"language"},
		Profile:   stage.Profile{Slots: 1, MinTasks: 1, MaxTasks: 4, TimeLimit: 30 * time.Minute, Typical: 2 * time.Minute, CPU: 1024, Memory: 2048},
		Breaker:   stage.Breaker{Window: time.Minute, CallTime: 15 * time.Second},
	},
	{
		Name: "highlight", Summary: "choose the segments worth a clip",
		Next:      "caption",
		ReadsOnly: true,
		Providers: []string{"language"},
		Profile:   stage.Profile{Slots: 2, MinTasks: 1, MaxTasks: 2, TimeLimit: 10 * time.Minute, Typical: 20 * time.Second, IOBound: true},
	},
	{
		Name: "caption", Summary: "write cues, titles and the summary, then order one clip per segment",
		Next: "compile", FanOut: true,
		Profile: stage.Profile{Slots: 2, MinTasks: 1, MaxTasks: 2, TimeLimit: 10 * time.Minute, Typical: 15 * time.Second, IOBound: true},
	},
	{
		Name: "compile", Summary: "cut one clip and burn its captions",
		Queue: stage.Standard, Next: "publish",
		Profile: stage.Profile{Slots: 2, MinTasks: 1, MaxTasks: 16, Ceiling: 32, TimeLimit: 30 * time.Minute, Typical: time.Minute, Spot: true, CPU: 4096, Memory: 8192},
		Breaker: stage.Breaker{Window: time.Minute},
	},
	{
		Name: "publish", Summary: "collect the clips, write manifest and page, move the current result",
		Join:    true,
		Profile: stage.Profile{Slots: 2, MinTasks: 1, MaxTasks: 2, TimeLimit: 10 * time.Minute, Typical: 10 * time.Second},
	},
}
