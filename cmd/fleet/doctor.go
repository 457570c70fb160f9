package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/doctor"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/workers"
)

const doctorHelp = `doctor compares what lives with the manifest (workers/stages.go) and writes nothing: the AWS account and region of the
environment (AWS_PROFILE, AWS_REGION, ...). Of each difference it says what was expected and found, why it matters, and the
command that mends it; --json says the same for machines.

It looks at: PARTS.
It reads no secret, no message and no recording.

Exit code 0 says that everything was looked at and agrees; 1 that something differs, even when something else could not be
looked at; 5 that nothing differs as far as could be seen, and not everything could. What was not seen is listed.
--skip leaves parts out on purpose.

--local looks at a fleet on this machine instead, as fleet up runs it: programs that the stages need, state directory, disk,
queues, workers, and the record with its dead steps.`

func newDoctor(getenv func(string) string) *cobra.Command {
	d := checkup{getenv: getenv}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Compare a live fleet with the manifest", Args: usage(cobra.NoArgs),
		Long:    strings.Replace(doctorHelp, "PARTS", partsText(), 1),
		Example: "  fleet doctor --env prod --database \"$FLEET_DATABASE_URL\"\n  fleet doctor --env prod --skip record\n  fleet doctor --local\n  fleet doctor --json | jq -r '.findings[].mend'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			look := d.look
			if d.isLocal {
				look = d.lookLocal
			}
			report, err := look(ctx, cmd.ErrOrStderr())
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return err
			}
			if d.json {
				err = printJSON(cmd, report)
			} else {
				err = printReport(cmd.OutOrStdout(), report)
			}
			return errors.Join(err, report.Err())
		},
	}
	cmd.Flags().StringVar(&d.env, "env", fallback(getenv("FLEET_ENV"), committedEnv), "name of the environment; FLEET_ENV sets the default")
	cmd.Flags().StringSliceVar(&d.skip, "skip", nil, "parts to leave out, such as record,permissions")
	cmd.Flags().BoolVar(&d.json, "json", false, "print JSON")
	databaseFlag(cmd, &d.database, getenv)
	cmd.Flags().BoolVar(&d.isLocal, "local", false, "look at a fleet on this machine (fleet up) instead")
	cmd.Flags().StringVar(&d.local.state, "state", defaultState, "with --local: its state directory")
	cmd.Flags().StringVar(&d.local.addr, "addr", addrOf(getenv), "with --local: its address; "+addrVar+" sets the default")
	cmd.Flags().StringVar(&d.local.keyFile, "key-file", "", "with --local: file with the API key; "+keyVar+" holds one as well (default: the local fleet's own)")
	cmd.Flags().DurationVar(&d.local.lease, "lease", 0, "with --local: as given to fleet up")
	cmd.Flags().DurationVar(&d.local.beat, "beat", 0, "with --local: as given to fleet up")
	return cmd
}

func fallback(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

// checkup is one run of the doctor.
type checkup struct {
	getenv        func(string) string
	env, database string
	skip          []string
	json          bool
	isLocal       bool
	local         localCheckup
}

func partsText() string {
	var names []string
	for _, p := range doctor.AccountParts() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// skipped are the parts that were named.
func (d checkup) skipped() ([]doctor.Part, error) {
	var parts []doctor.Part
	for _, name := range d.skip {
		if !slices.Contains(doctor.AccountParts(), doctor.Part(name)) {
			return nil, usageError{fmt.Errorf("--skip %s: there is no such part; there are %s", name, partsText())}
		}
		parts = append(parts, doctor.Part(name))
	}
	return parts, nil
}

func (d checkup) look(ctx context.Context, progress io.Writer) (doctor.Report, error) {
	skip, err := d.skipped()
	if err != nil {
		return doctor.Report{}, err
	}
	cfg, err := doctor.Configuration(ctx)
	if err != nil {
		return doctor.Report{}, fmt.Errorf("%w: %w", doctor.ErrUnseen, err)
	}
	c := doctor.Config{Pipeline: workers.Stages, Env: d.env, Region: cfg.Region, Account: doctor.NewAccount(cfg), Skip: skip}
	if d.database != "" {
		c.Schema = func(ctx context.Context) error { return checkSchema(ctx, d.database) }
	}
	c.Progress = d.progress(progress)
	defer d.done(progress)
	return doctor.Look(ctx, c)
}

// progress says on a terminal what is looked at, and done takes it away.
func (d checkup) progress(w io.Writer) func(doctor.Part) {
	if newDisplay(w).width == 0 {
		return nil
	}
	return func(p doctor.Part) { fmt.Fprintf(w, "\r\x1b[2KLooking at %s ...", p) }
}

func (d checkup) done(w io.Writer) {
	if newDisplay(w).width > 0 {
		fmt.Fprint(w, "\r\x1b[2K")
	}
}

// checkSchema opens the record, which refuses a schema that is behind.
func checkSchema(ctx context.Context, database string) error {
	record, err := job.Open(ctx, database, job.Options{MaxConns: 2})
	if errors.Is(err, job.ErrSchema) {
		return doctor.ErrSchemaBehind
	}
	if err != nil {
		return err
	}
	return record.Close()
}
