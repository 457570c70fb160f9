package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
	"github.com/stagefleet/stagefleet/pkg/internal/telemetry"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/webhook"
)

// remoteSweep costs one call per stage and look when the dead-letter queues are empty.
const remoteSweep = 30 * time.Second

// remoteWatch is the period of the alarms' shortest rules; a look costs two calls per stage and five queries.
const remoteWatch = time.Minute

// Remote is a server whose workers, queues and record are elsewhere. Every field is required.
type Remote struct {
	Pipeline stage.Pipeline
	Env      string // name of the environment in queue names
	Addr     string // host:port of the API
	Database string // sqlite:PATH or postgres://..., its schema up to date
	Place    string // of the objects, file:///folder or s3://bucket/prefix
	Limits   Limits
	Price    int64 // units that a job costs; zero is free
	Log      io.Writer
	Emit     bool // write the metrics behind alarms into the log, for CloudWatch; see package stage
	Ready    func(addr string)

	Providers map[string][]webhook.Secret // by which providers sign their events; empty: none is accepted
	Proxies   []netip.Prefix              // that are trusted to say for whom they ask; empty: nobody is
}

// Run serves until ctx ends. Queues are found by the AWS configuration of the environment.
func (r Remote) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log, err := telemetry.NewLog(r.Log, "info")
	if err != nil {
		return err
	}
	cfg, err := awshttp.Config(ctx)
	if err != nil {
		return err
	}
	metrics := telemetry.NewRegistry()
	record, err := job.Open(ctx, r.Database, r.Limits.of(job.Options{Registerer: metrics, Failed: loggedFaults(log)}))
	if err != nil {
		return fmt.Errorf("open the record: %w", err)
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	if r.Emit {
		e := telemetry.Emitter{
			Out: r.Log, Gatherer: metrics, Env: r.Env, Stage: "server", Server: true,
			Failed: func(err error) { log.Warn("metrics not written", zap.Error(err)) },
		}
		var wg sync.WaitGroup
		wg.Go(func() { e.Run(ctx) })
		defer wg.Wait()
	}
	return Serve(ctx, Server{
		Pipeline: r.Pipeline, Env: r.Env, Addr: r.Addr, Record: record, Crew: record, Place: r.Place, Queues: sqs.NewFromConfig(cfg),
		Metrics: metrics, Log: log, Sweep: remoteSweep, Watch: remoteWatch, Ready: r.Ready, Price: r.Price, Providers: r.Providers, Proxies: r.Proxies,
	})
}
