package stage_test

import (
	"crypto/sha256"
	"fmt"
)

// hashOf is the hash as the documentation states it, written without the package's own.
func hashOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
