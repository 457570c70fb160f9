// Command transcribe is the worker that turns the speech of a recording into timed words. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/transcribe/handler"
)

func main() { worker.Main("transcribe", handler.New) }
