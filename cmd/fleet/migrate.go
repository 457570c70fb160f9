package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func newMigrate(getenv func(string) string) *cobra.Command {
	var database string
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the record's schema up to date", Args: usage(cobra.NoArgs),
		Long:    "migrate brings the record's schema up to date; fleet up does so by itself. It only goes forward, and the previous\nrelease's workers go on with what it leaves.",
		Example: "  fleet migrate --database postgres://fleet@db/fleet",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needed(database, "database", worker.EnvDatabase); err != nil {
				return err
			}
			record, err := job.Open(cmd.Context(), database, job.Options{Migrate: true})
			if err != nil {
				return fmt.Errorf("migrate the record: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The schema is up to date.")
			return record.Close()
		},
	}
	databaseFlag(cmd, &database, getenv)
	return cmd
}
