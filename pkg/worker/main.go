package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/pool"
)

// The exit codes of a worker process; 2 is the Go runtime's, for a panic outside a handler.
const (
	ExitDone      = 0   // stopped as asked; everything was finished or handed back
	ExitBroken    = 1   // failed while it ran
	ExitStart     = 3   // the record, the objects or the queues could not be opened
	ExitAbandoned = 4   // stopped as asked, but work was left to reappear by itself
	ExitConfig    = 78  // the environment cannot work; one line says why
	ExitSignal    = 130 // ended at once by a second signal
)

// Main runs a stage's worker process and never returns. SIGTERM, SIGINT or the end
// of the parent's pipe drains it; a second signal ends it at once. With the one
// argument "health" it asks the worker at FLEET_HEALTH_ADDR instead whether it
// lives, for the health checks of containers, which may have no shell.
func Main[In, Out any](name string, newHandler func(Deps) (Handler[In, Out], error)) {
	if len(os.Args) == 2 && os.Args[1] == "health" {
		os.Exit(askHealth(os.Getenv(EnvHealthAddr), os.Stderr))
	}
	os.Exit(Define(name, newHandler).main(os.Environ(), os.Stderr))
}

func (p Program) main(environ []string, stderr io.Writer) int {
	c, err := ParseConfig(environ, p.Name)
	if err != nil {
		fmt.Fprintf(stderr, "worker %s: %v\n", p.Name, err)
		return ExitConfig
	}
	log, err := telemetry.NewLog(stderr, c.LogLevel, zap.String("stage", p.Name))
	if err != nil {
		fmt.Fprintf(stderr, "worker %s: %v\n", p.Name, err)
		return ExitConfig
	}
	ctx, stop := untilStopped(c.ParentFD, log)
	defer stop()
	report, err := p.Run(ctx, c, log)
	code := exitCode(ctx, report, err)
	log.Info("ended", zap.Int("exit", code), zap.Error(err))
	return code
}

func exitCode(ctx context.Context, report pool.Report, err error) int {
	switch {
	case errors.Is(err, ErrStart) && ctx.Err() != nil: // stopped before it had begun
		return ExitDone
	case errors.Is(err, ErrStart):
		return ExitStart
	case report.Abandoned > 0:
		return ExitAbandoned
	case err != nil:
		return ExitBroken
	}
	return ExitDone
}

// The causes of a stop.
var (
	errSignal = errors.New("stopped by a signal")
	errParent = errors.New("the parent is gone")
)

// untilStopped returns a context that ends with the first signal or with the
// parent. The returned function takes the handlers off again.
func untilStopped(parentFD int, log *zap.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			s, more := <-signals
			if !more {
				return
			}
			if n > 0 {
				log.Error("second signal, ending at once", zap.Stringer("signal", s))
				os.Exit(ExitSignal)
			}
			log.Info("draining", zap.Stringer("signal", s))
			cancel(errSignal)
		}
	})
	parent := watchParent(parentFD, &wg, func() {
		log.Info("draining", zap.String("signal", "parent"))
		cancel(errParent)
	})
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		parent.Close()
		wg.Wait()
		cancel(nil)
	}
}

// watchParent calls gone at the end of the pipe from the parent. Closing the
// returned file ends the watch without calling it.
func watchParent(fd int, wg *sync.WaitGroup, gone func()) io.Closer {
	if fd == 0 {
		return io.NopCloser(nil)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		gone() // a pipe that cannot be watched is a parent that cannot be trusted to be there
		return io.NopCloser(nil)
	}
	syscall.CloseOnExec(fd)
	pipe := os.NewFile(uintptr(fd), "parent")
	wg.Go(func() {
		_, err := io.Copy(io.Discard, pipe)
		if !errors.Is(err, os.ErrClosed) {
			gone()
		}
	})
	return pipe
}
