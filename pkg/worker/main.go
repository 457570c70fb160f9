package worker

import "os"

// Main runs a stage's worker process and never returns.
func Main[In, Out any](name string, newHandler func(Deps) (Handler[In, Out], error)) {
	_ = Define(name, newHandler)
	os.Exit(2)
}
