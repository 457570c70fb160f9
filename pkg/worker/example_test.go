package worker_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// A stage is a function from an input to an output; the error says how it ended otherwise.
func ExampleFunc() {
	shout := worker.Func[string, string](func(_ context.Context, t worker.Task[string]) (string, error) {
		if t.Input == "" {
			return "", outcome.Reject("empty", "There is nothing to shout.")
		}
		return strings.ToUpper(t.Input), nil
	})
	for _, in := range []string{"hello", ""} {
		got := worker.Try(context.Background(), shout, in, worker.Trial{})
		fmt.Printf("%s: %s%s\n", got.Verdict.Kind, got.Output, got.Verdict.Sentence)
	}
	// Output:
	// done: HELLO
	// reject: There is nothing to shout.
}

// A stage that fans out returns one item per message of the next stage, and a head
// for the stage that joins their results.
func ExampleParts() {
	split := worker.Func[string, worker.Parts[int, string]](func(_ context.Context, t worker.Task[string]) (worker.Parts[int, string], error) {
		words := strings.Fields(t.Input)
		return worker.Parts[int, string]{Head: len(words), Items: words}, nil
	})
	got := worker.Try(context.Background(), split, "cut the film", worker.Trial{})
	fmt.Println(got.Output.Head, got.Output.Items)
	// Output: 3 [cut the film]
}
