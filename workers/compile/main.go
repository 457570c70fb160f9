// Command compile is the worker that cuts one clip and burns its captions. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/compile/handler"
)

func main() { worker.Main("compile", handler.New) }
