package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

const defaultState = ".stagefleet"

const upHelp = `up runs a whole fleet on this machine, without a cloud and without Docker: the API, an embedded queue server
(SQS protocol), and the workers of every stage as processes of their own. Record, objects and logs are kept
in the state directory; stopped and started again, the fleet goes on with what is unfinished.

Ctrl-C or SIGTERM drains the workers; a second one kills them. A worker that dies is started again.
Lease and beat are a twentieth of production's, so that work of a killed worker goes on in seconds.`

func newUp(getenv func(string) string) *cobra.Command {
	local := fleet.Local{}
	var tasks, proxies string
	var lease, beat time.Duration
	var limits limits
	cmd := &cobra.Command{
		Use: "up", Short: "Run a fleet on this machine", Long: upHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet up\n  fleet up --workers compile=3 --state /var/lib/fleet\n  fleet up --lease 10s --beat 3s",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkSettings(); err != nil {
				return err
			}
			if local.Pipeline, err = durations(workers.Stages, lease, beat); err != nil {
				return usageError{err}
			}
			if local.Limits, err = limits.parse(); err != nil {
				return err
			}
			if local.Tasks, err = fleet.ParseTasks(tasks, local.Pipeline); err != nil {
				return usageError{err}
			}
			if local.Providers, err = fleet.ParseProviders(getenv(fleet.EnvProviders)); err != nil {
				return usageError{err}
			}
			if local.Proxies, err = fleet.ParseProxies(proxies); err != nil {
				return usageError{err}
			}
			if local.Binaries, err = beside(); err != nil {
				return err
			}
			warnOfMissingTools(cmd.ErrOrStderr(), getenv)
			local.Environ, local.Out = os.Environ(), cmd.OutOrStdout()
			ctx, kill, stop := stopSignals(cmd)
			defer stop()
			local.Kill = kill
			return local.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&local.State, "state", defaultState, "directory of record, objects and logs")
	cmd.Flags().StringVar(&local.Addr, "addr", addrOf(getenv), "address of the API, host:port; beyond the loopback interface only once there are keys")
	cmd.Flags().StringVar(&tasks, "workers", "", "worker processes of a stage, such as compile=3,transcribe=2")
	cmd.Flags().DurationVar(&lease, "lease", 0, "how long a worker's silence is borne before its work is given to another (default 21s)")
	cmd.Flags().DurationVar(&beat, "beat", 0, "how often a worker renews its lease (default 9s, or three sevenths of --lease)")
	cmd.Flags().Int64Var(&local.Price, "price", 0, "units that a job costs its account; failed and refused jobs are refunded")
	limits.flags(cmd, getenv)
	proxiesFlag(cmd, &proxies, getenv)
	return cmd
}

// durations scales the manifest for one machine and puts what was asked for in the place of the scaled values. A lease
// alone keeps production's ratio of lease and beat.
func durations(p stage.Pipeline, lease, beat time.Duration) (stage.Pipeline, error) {
	p = p.Scaled(stage.LocalScale)
	given := flagged(lease, beat)
	if beat == 0 {
		beat = time.Duration(float64(lease) * stage.DefaultBeat.Seconds() / stage.DefaultVisibility.Seconds())
	}
	for i := range p {
		d := &p[i].Durations
		if lease != 0 {
			d.Visibility, d.Lease = lease, lease
		}
		if beat != 0 {
			d.Beat = beat
		}
	}
	// Every stage breaks the same bound: one of the errors says it.
	if field, broken := errors.AsType[*stage.FieldError](p.Validate()); broken {
		return nil, fmt.Errorf("%s: %w", given, field)
	}
	return p, nil
}

// flagged names the flags that were given.
func flagged(lease, beat time.Duration) string {
	var flags []string
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"--lease", lease}, {"--beat", beat}} {
		if f.value != 0 {
			flags = append(flags, fmt.Sprintf("%s %v", f.name, f.value))
		}
	}
	return strings.Join(flags, " with ")
}

// beside finds the worker binaries where the build puts them: in workers/ beside this command.
func beside() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find the worker binaries: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "workers"), nil
}

// stopSignals returns a context that the first SIGINT or SIGTERM ends, and a channel that the second one closes.
func stopSignals(cmd *cobra.Command) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	kill := make(chan struct{})
	go func() { // ends with the command, whose stop closes signals
		if _, more := <-signals; !more {
			return
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Draining the workers; once more kills them.")
		cancel()
		if _, more := <-signals; more {
			close(kill)
		}
	}()
	return ctx, kill, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}
