package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

const importHelp = `import hands in a sheet of recordings, CSV (UTF-8) or XLSX. Every row becomes a job or is refused with a reason.

The first row names the columns, in any order: source (required), target, title, version. A source is a file, relative to
the sheet, for a fleet on this machine; or object:KEY, an object under inbox/ACCOUNT/ in the fleet's store. Without a
target a row is named after its source; without a version the next one is made. A title is what people see as the name.
A column with any other name is refused, except reason, which is ignored.

Rows pass the account's limits like any submission: an import that meets one waits and goes on when there is room.
It goes on over restarts of the fleet. Refused rows: fleet imports ID --refused FILE; mend them and import that file.

With --watch, progress is shown until every row is settled; --json then prints the ended import alone.`

func newImport(getenv func(string) string) *cobra.Command {
	var c client
	var watch bool
	var request api.SheetRequest
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Hand in a sheet of recordings", Long: importHelp, Args: usage(cobra.ExactArgs(1)),
		Example: "  fleet import talks.csv --watch\n  fleet import talks.xlsx --json | jq -r .id",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := api.OpenRegular(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if request.Name, err = nameOf(args[0]); err != nil {
				return err
			}
			if request.Folder, err = filepath.Abs(filepath.Dir(args[0])); err != nil {
				return fmt.Errorf("find the sheet's folder: %w", err)
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				i, err := fleet.CreateImport(ctx, request, file)
				switch {
				case err != nil:
					return err
				case watch:
					return watchImport(ctx, cmd, fleet, i.ID, c.json)
				case c.json:
					return printJSON(cmd, i)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "import %s: %s is taken\n", i.ID, printable(i.Name))
				fmt.Fprintf(cmd.ErrOrStderr(), "Watch it with: fleet imports %s --watch\n", i.ID)
				return nil
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().BoolVar(&watch, "watch", false, "show progress until every row is settled")
	cmd.Flags().StringVar(&request.Webhook, "webhook", "", "address that the end of every job is reported to, signed; see: fleet webhooks")
	return cmd
}

func newImports(getenv func(string) string) *cobra.Command {
	var c client
	var refused string
	var cancel, watch bool
	cmd := &cobra.Command{
		Use: "imports [ID]", Short: "List imports, or show, watch or cancel one", Args: usage(cobra.MaximumNArgs(1)),
		Long:    "imports lists imports, newest first, or shows one: how many of its rows are settled, and the first that were refused.",
		Example: "  fleet imports\n  fleet imports ID --refused mend.csv && fleet import mend.csv\n  fleet imports ID --cancel",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && (refused != "" || cancel || watch) {
				return usageError{errors.New("--refused, --cancel and --watch need the ID of an import")}
			}
			return c.ask(func(ctx context.Context, fleet *api.Client) error {
				switch {
				case len(args) == 0:
					return listImports(ctx, cmd, fleet, c.json)
				case refused != "":
					return saveRefused(ctx, cmd, fleet, args[0], refused)
				case watch:
					return watchImport(ctx, cmd, fleet, args[0], c.json)
				}
				i, err := fleet.Import(ctx, args[0])
				if cancel {
					i, err = fleet.CancelImport(ctx, args[0])
				}
				if err != nil {
					return err
				}
				return showImport(ctx, cmd, fleet, i, c.json)
			})
		},
	}
	c.flags(cmd, getenv)
	cmd.Flags().StringVar(&refused, "refused", "", "write the refused rows with their reasons to this file, or to - (standard output)")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "end the import; rows that have a job keep it")
	cmd.Flags().BoolVar(&watch, "watch", false, "show progress until every row is settled")
	return cmd
}

func listImports(ctx context.Context, cmd *cobra.Command, fleet *api.Client, asJSON bool) error {
	page, err := fleet.Imports(ctx, api.MaxPage)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd, page.Imports)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMPORT\tFILE\tSTATE\tROWS\tACCEPTED\tREFUSED\tHANDED IN")
	for _, i := range page.Imports {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", i.ID, printable(i.Name), wordsOf(i.State), i.Rows, i.Accepted, i.Refused, i.CreatedAt.Local().Format(time.DateTime))
	}
	return table.Flush()
}

func wordsOf(s job.ImportState) string { return strings.ReplaceAll(string(s), "_", " ") }

// watchImport shows progress: one line that is redrawn on a terminal, else a line for every twentieth of the rows.
func watchImport(ctx context.Context, cmd *cobra.Command, fleet *api.Client, id string, asJSON bool) error {
	out := cmd.OutOrStdout()
	_, redraw := terminalOf(out)
	told := ""
	last, err := fleet.WatchImport(ctx, id, func(i job.Import) {
		if asJSON {
			return
		}
		settled := i.Accepted + i.Refused
		line := fmt.Sprintf("import %s: %s, %d of %d rows settled", id, wordsOf(i.State), settled, i.Rows)
		if !i.State.Ended() && i.Reason != nil {
			line += "; " + i.Reason.Sentence
		}
		step := fmt.Sprint(i.State, i.Reason, settled*20/max(i.Rows, 1))
		switch {
		case redraw:
			fmt.Fprintf(out, "\r\x1b[K%s", line)
		case step != told:
			fmt.Fprintln(out, line)
		}
		told = step
	})
	if redraw && !asJSON {
		fmt.Fprintln(out)
	}
	if err != nil {
		return err
	}
	return showImport(ctx, cmd, fleet, last, asJSON)
}

// shownRows is how many refused rows are shown; the sheet has all.
const shownRows = 10

// showImport prints an import and what was refused first. One that made no job is an end without a result.
func showImport(ctx context.Context, cmd *cobra.Command, fleet *api.Client, i job.Import, asJSON bool) error {
	var none error
	if i.State == job.ImportFailed || i.State == job.ImportCancelled {
		none = fmt.Errorf("%w: import %s is %s", errNoResult, i.ID, wordsOf(i.State))
	}
	if asJSON {
		return errors.Join(printJSON(cmd, i), none)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "import %s of %s: %s\n  %d rows: %d accepted, %d refused\n", i.ID, printable(i.Name), wordsOf(i.State), i.Rows, i.Accepted, i.Refused)
	if i.Reason != nil {
		fmt.Fprintf(out, "  %s\n", i.Reason.Sentence)
	}
	if i.Notice != "" {
		fmt.Fprintf(out, "  %s\n", i.Notice)
	}
	if i.Refused == 0 {
		return none
	}
	page, err := fleet.ImportRows(ctx, i.ID, true, "", shownRows)
	if err != nil {
		return errors.Join(err, none)
	}
	for _, row := range page.Rows {
		fmt.Fprintf(out, "  row %d%s: %s\n", row.Row, columnOf(row), row.Reason.Sentence)
	}
	if i.Refused > shownRows {
		fmt.Fprintf(out, "  and %d more\n", i.Refused-shownRows)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "All refused rows with their reasons: fleet imports %s --refused FILE\n", i.ID)
	return none
}

func columnOf(row api.ImportRow) string {
	if row.Column == "" {
		return ""
	}
	return fmt.Sprintf(", %s (%s)", row.Column, row.Kind)
}

// saveRefused never replaces a file: it may be the one that is being mended.
func saveRefused(ctx context.Context, cmd *cobra.Command, fleet *api.Client, id, name string) error {
	if name == "-" {
		return fleet.RefusedSheet(ctx, id, cmd.OutOrStdout())
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the file of refused rows: %w", err)
	}
	err = fleet.RefusedSheet(ctx, id, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
