package bounds_test

import (
	"testing"
	"time"

	"github.com/stagefleet/stagefleet/pkg/internal/bench/bounds"
)

func TestFlagsThatCannotWorkAreRefusedInOneSentence(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{bounds.Between("rounds", 0, 1, 9), "-rounds is 0, must be between 1 and 9"},
		{bounds.Between("rounds", 10, 1, 9), "-rounds is 10, must be between 1 and 9"},
		{bounds.Between("rounds", 1, 1, 9), ""},
		{bounds.Between("rounds", 9, 1, 9), ""},
		{bounds.Between("idle", -time.Second, 0, time.Hour), "-idle is -1s, must be between 0s and 1h0m0s"},
		{bounds.Among("only", "raw,x", "raw", "pool"), `-only names "x", must be of raw,pool`},
		{bounds.Among("only", "", "raw", "pool"), `-only names "", must be of raw,pool`},
		{bounds.Among("only", "pool,raw", "raw", "pool"), ""},
		{bounds.None([]string{"5"}), `"5" is no flag, and flags are all that is taken: see -help`},
		{bounds.None(nil), ""},
	} {
		got := ""
		if c.err != nil {
			got = c.err.Error()
		}
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
