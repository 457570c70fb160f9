package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

const keysFirstHelp = `first makes the operator's first key in a record, for a server that others can reach and that does not start before there
is a key. It opens the account "local" if need be. Made again, the key takes the place of the one that it made before: who has
lost all keys gets in this way. A key in the file of --out is left alone while it is valid.`

func newKeysFirst(getenv func(string) string) *cobra.Command {
	var database, out string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use: "first", Short: "Make the operator's first key, directly in the record", Long: keysFirstHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet keys first --database postgres://fleet@db/fleet --lifetime 24h\n  fleet keys first --out key",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needed(database, "database", worker.EnvDatabase); err != nil {
				return err
			}
			return withRecord(cmd.Context(), database, func(record *job.Store) error {
				key := fleet.FirstKey{Record: record, Lifetime: lifetime}
				if out != "" {
					return key.Write(cmd.Context(), out)
				}
				return key.Deliver(cmd.Context(), func(secret string) error {
					return showSecret(cmd, secret, "The operator's key, which is shown this once:")
				})
			})
		},
	}
	databaseFlag(cmd, &database, getenv)
	aliasDatabase(cmd)
	cmd.Flags().StringVar(&out, "out", "", "file to write it to, readable by its owner alone, instead of showing it")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 0, "after which it expires; 0: until it is made again or revoked")
	return cmd
}
