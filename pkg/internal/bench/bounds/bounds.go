// Package bounds refuses flags that cannot work, each with one sentence: name, value and bound.
package bounds

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Between checks that a flag's value is between lo and hi.
func Between[N cmp.Ordered](flag string, value, lo, hi N) error {
	if value < lo || value > hi {
		return fmt.Errorf("-%s is %v, must be between %v and %v", flag, value, lo, hi)
	}
	return nil
}

// Among checks that each part of a comma-separated flag is known.
func Among(flag, value string, known ...string) error {
	for part := range strings.SplitSeq(value, ",") {
		if !slices.Contains(known, part) {
			return fmt.Errorf("-%s names %q, must be of %s", flag, part, strings.Join(known, ","))
		}
	}
	return nil
}

// None checks that nothing follows the flags.
func None(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("%q is no flag, and flags are all that is taken: see -help", rest[0])
	}
	return nil
}

// Exit ends the process as usage errors do, unless all errors are nil.
func Exit(errs ...error) {
	if err := cmp.Or(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
