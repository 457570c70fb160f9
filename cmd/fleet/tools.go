package main

import (
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/provider"
)

// warnOfMissingTools says which programs that the stages run are not installed, before a job fails for want of them. It is no
// error: stages that do without them work.
func warnOfMissingTools(w io.Writer, getenv func(string) string) {
	tools := []string{"ffmpeg", "ffprobe", "tesseract", "aubiopitch", "prlimit"}
	if getenv(provider.SpeechURL) == "" {
		tools = append(tools, "pocketsphinx_continuous")
	}
	var missing []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(w, "Not installed, so jobs will fail or have gaps: %s. `make setup` installs what the stages run.\n", strings.Join(missing, ", "))
	}
}
