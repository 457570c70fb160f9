// Command caption is the worker that writes cues, titles and the summary, and orders one clip per segment. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/caption/handler"
)

func main() { worker.Main("caption", handler.New) }
