package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/localsqs/sqsclient"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

const sqsHelp = `sqs runs the embedded SQS server alone, for any AWS SDK or CLI since November 2023 (set AWS_ENDPOINT_URL_SQS to its
address). Metrics are under /metrics. Without --dir everything is forgotten when it stops.

--fault breaks calls on purpose: rules separated by semicolons, each an effect (fail, throttle, delay, drop, lose,
partial, duplicate), optionally a colon and settings: action, queue, nth, share, times, delay; seed=N makes it repeatable.`

// The server's memory is mostly messages, which the collector's usual percentage of 100 would double. At 50 it would
// collect a small heap many times a second; headroom that is counted but never touched, so that it takes no memory, makes
// that seldom.
const (
	sqsGCPercent  = 50
	sqsGCHeadroom = 32 << 20
)

func newSQS() *cobra.Command {
	var cfg localsqs.ServeConfig
	var faults, env string
	cmd := &cobra.Command{
		Use: "sqs", Short: "Run the embedded SQS server alone", Long: sqsHelp, Args: usage(cobra.NoArgs),
		Example: "  fleet sqs --dir .sqs\n  fleet sqs --fault 'throttle:action=ReceiveMessage,share=0.1; delay:delay=300ms,queue=jobs; seed=7'",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Options.Faults, err = localsqs.ParseFaults(faults); err != nil {
				return usageError{fmt.Errorf("--fault: %w", err)}
			}
			if err := cfg.Validate(); err != nil {
				return usageError{fmt.Errorf("--addr: %w", err)}
			}
			debug.SetGCPercent(sqsGCPercent)
			headroom := make([]byte, sqsGCHeadroom)
			defer runtime.KeepAlive(headroom)
			if env != "" {
				cfg.Prepare = func(ctx context.Context, s *localsqs.Server) error {
					return admin.CreateQueues(ctx, sqsclient.New(s), workers.Stages.Scaled(stage.LocalScale), env)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process at once
			cfg.Ready = func(addr net.Addr) { fmt.Fprintln(cmd.OutOrStdout(), "SQS answers at", reachable(addr)) }
			return notHere(localsqs.Serve(ctx, cfg))
		},
	}
	cmd.Flags().StringVar(&cfg.Addr, "addr", localsqs.DefaultAddr, "address to listen on, host:port; port 0 takes a free one")
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "folder that keeps the queues across restarts; empty keeps them in memory")
	cmd.Flags().StringVar(&env, "env", "", "make the queues of every stage for an environment of this name, with the times of fleet up")
	cmd.Flags().StringVar(&faults, "fault", "", "faults to inject, see above")
	return cmd
}

// reachable is the URL to use for a server that listens on addr.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + addr.String()
	}
	return fmt.Sprintf("http://127.0.0.1:%d and, for other machines, at every address of this one", tcp.Port)
}

// notHere makes an address that this machine does not have a mistake in the command line.
func notHere(err error) error {
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown), errors.Is(err, syscall.EADDRNOTAVAIL):
		return usageError{fmt.Errorf("--addr: this machine has no such address: %w", err)}
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another program listens there, choose another address with --addr: %w", err)
	}
	return err
}
