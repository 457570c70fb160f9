package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/setting"
)

// shown is a setting with its value here.
type shown struct {
	setting.Setting
	Value string `json:"value"` // masked; empty: not set
}

func newEnv(getenv func(string) string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "env", Short: "Show every setting of the environment", Args: usage(cobra.NoArgs),
		Long: "env shows every variable with the prefix " + setting.Prefix + " that client, server or workers read: what it means, its default, and\n" +
			"its value here; secrets are masked. A variable with the prefix that is none of them stops server and workers, and\n" +
			"this command with exit code 2 after its list. --json prints an array.",
		Example: "  fleet env\n  fleet env --json | jq -r '.[] | select(.value != \"\") | .name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []shown
			for _, s := range setting.All {
				all = append(all, shown{s, s.Mask(getenv(s.Name))})
			}
			var err error
			if asJSON {
				err = printJSON(cmd, all)
			} else {
				err = printSettings(cmd, all)
			}
			if err != nil {
				return err
			}
			return checkSettings()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSettings(cmd *cobra.Command, all []shown) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tREAD BY\tVALUE\tDEFAULT\tMEANING")
	for _, s := range all {
		var readers []string
		for _, r := range s.Readers {
			readers = append(readers, string(r))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Name, strings.Join(readers, ", "), cmp.Or(printable(s.Value), "-"), cmp.Or(s.Default, "-"), s.Meaning)
	}
	return table.Flush()
}

// checkSettings refuses misspelt settings, which would be ignored otherwise.
func checkSettings() error {
	if err := setting.Check(os.Environ()); err != nil {
		return usageError{err}
	}
	return nil
}
