package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/workers"
)

const generateHelp = `generate writes what a fleet needs in an AWS account, from the manifest (workers/stages.go): CloudFormation templates,
alarms as Prometheus rules, and a runbook for each alarm. The same manifest and environment give the same bytes. Files that
were generated earlier and no longer are get removed; files of others are left alone.

--check writes nothing: it prints what differs and fails if something does.`

// committedEnv is the environment of the folder that is committed.
const committedEnv = "prod"

var errDrift = errors.New("the folder is not what the manifest says")

func newGenerate() *cobra.Command {
	var dir, env string
	var check bool
	cmd := &cobra.Command{
		Use: "generate", Short: "Write templates, alarms and runbooks from the manifest", Long: generateHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet generate\n  fleet generate --check\n  fleet generate --env staging --out build/staging",
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := infra.Generate(workers.Stages, env)
			if err != nil {
				return err
			}
			if check {
				return reportDrift(cmd, dir, env, files)
			}
			changed, err := infra.Write(dir, files)
			for _, name := range changed {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d files changed in %s.\n", len(changed), len(files), dir)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "out", "deploy", "folder to write")
	cmd.Flags().StringVar(&env, "env", committedEnv, "name of the environment, in the names of all resources")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; fail if a file differs")
	return cmd
}

func reportDrift(cmd *cobra.Command, dir, env string, files []infra.File) error {
	drifts, err := infra.Compare(dir, files)
	if err != nil {
		return err
	}
	for _, d := range drifts {
		fmt.Fprintln(cmd.OutOrStdout(), d)
	}
	if len(drifts) == 0 {
		return nil
	}
	mend := "fleet generate --out " + dir
	if env != committedEnv {
		mend += " --env " + env
	}
	return fmt.Errorf("%w: %d files differ; run %s", errDrift, len(drifts), mend)
}
