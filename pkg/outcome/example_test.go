package outcome_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/stagefleet/stagefleet/pkg/outcome"
)

func Example() {
	policy := outcome.Policy{} // three attempts, 30 s and 60 s apart
	for _, end := range []error{
		nil,
		errors.New("connection reset"),
		outcome.Fail("model_missing", errors.New("no such file")),
		outcome.RetryAfter(5*time.Second, errors.New("too many requests")),
		outcome.Defer(time.Minute, "maintenance"),
		outcome.Reject("no_video", "The file has no video."),
		outcome.Quarantine("unknown_version", nil),
	} {
		a := policy.Decide(outcome.Of(end), 1, 0)
		fmt.Println(a.Do, a.Wait, a.Attempt, a.Reason)
	}
	// Output:
	// finish 0s 1 done
	// wait 30s 1 failed
	// wait 30s 1 model_missing
	// wait 5s 1 retry_after
	// wait 1m0s 0 maintenance
	// refuse 0s 1 no_video
	// die 0s 1 unknown_version
}
