// Command ingest is the worker that validates and probes a recording and extracts its sound and poster frames. The
// environment says everything else; see package worker.
package main

import (
	"github.com/stagefleet/stagefleet/pkg/worker"
	"github.com/stagefleet/stagefleet/workers/ingest/handler"
)

func main() { worker.Main("ingest", handler.New) }
