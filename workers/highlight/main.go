// Command highlight is the worker that chooses the segments of a recording that are worth a clip. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/highlight/handler"
)

func main() { worker.Main("highlight", handler.New) }
