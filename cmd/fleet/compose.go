package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/compose"
	"github.com/stagefleet/stagefleet/workers"
)

func newCompose() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "compose", Short: "Write the file that runs the fleet in containers", Args: usage(cobra.NoArgs),
		Long:    "compose writes the Docker Compose file of the whole fleet from the manifest. `make up-containers` runs it.",
		Example: "  fleet compose",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := compose.File(workers.Stages)
			if err != nil {
				return err
			}
			if old, err := os.ReadFile(out); err == nil && bytes.Equal(old, file) {
				return nil
			}
			if err := os.WriteFile(out, file, 0o644); err != nil {
				return fmt.Errorf("write the file: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "docker/compose.yaml", "file to write")
	return cmd
}
