// Command identify is the worker that finds out who speaks in a recording. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/identify/handler"
)

func main() { worker.Main("identify", handler.New) }
