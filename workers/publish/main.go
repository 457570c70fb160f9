// Command publish is the worker that collects the clips of a recording and makes its page and manifest. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/publish/handler"
)

func main() { worker.Main("publish", handler.New) }
