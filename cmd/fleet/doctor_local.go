package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/doctor"
	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/workers"
)

// localCheckup says which local fleet is looked at.
type localCheckup struct {
	state, addr, keyFile string
	lease, beat          time.Duration
}

// lookLocal looks at a fleet on this machine through its API, its queue server and its state directory.
func (d checkup) lookLocal(ctx context.Context, progress io.Writer) (doctor.Report, error) {
	pipeline, err := durations(workers.Stages, d.local.lease, d.local.beat)
	if err != nil {
		return doctor.Report{}, usageError{err}
	}
	secret, err := secretOf(d.getenv, d.local.keyFile, d.local.addr)
	if err != nil {
		return doctor.Report{}, err
	}
	asked := api.NewClient(d.local.addr).WithKey(secret).As(person())
	defer asked.Close()
	m := doctor.Machine{
		Pipeline: pipeline, State: d.local.state, Tools: localTools(d.getenv), Queues: localQueues(d.local.state), Progress: d.progress(progress),
		Stages: func(ctx context.Context) ([]doctor.Running, time.Time, error) {
			return runningStages(ctx, asked, d.local.addr)
		},
	}
	defer d.done(progress)
	database := filepath.Join(d.local.state, "fleet.db")
	if _, err := os.Stat(database); err == nil { // opening would make it
		m.Schema = func(ctx context.Context) error { return checkSchema(ctx, "sqlite:"+database) }
		m.Dead = func(ctx context.Context) (int, error) { return deadSteps(ctx, "sqlite:"+database) }
	}
	return doctor.LookLocal(ctx, m)
}

func localTools(getenv func(string) string) []doctor.Tool {
	tools := []doctor.Tool{
		{Name: "ffmpeg", Version: []string{"-version"}}, {Name: "ffprobe", Version: []string{"-version"}},
		{Name: "tesseract", Version: []string{"--version"}}, {Name: "aubiopitch"}, {Name: "prlimit", Version: []string{"--version"}},
	}
	if getenv(provider.SpeechURL) == "" {
		tools = append(tools, doctor.Tool{Name: "pocketsphinx_continuous"})
	}
	return tools
}

// localQueues is the queue server whose address a running fleet leaves in its state directory; nil without one.
func localQueues(state string) doctor.Queues {
	address, err := os.ReadFile(filepath.Join(state, fleet.EndpointFile))
	if err != nil {
		return nil
	}
	endpoint := strings.TrimSpace(string(address))
	return sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: &endpoint, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		})})
}

func runningStages(ctx context.Context, asked *api.Client, addr string) ([]doctor.Running, time.Time, error) {
	stages, err := asked.Stages(ctx)
	if errors.Is(err, api.ErrUnreachable) {
		err = doctor.ErrNoAnswer
	}
	var all []doctor.Running
	for _, s := range stages {
		all = append(all, doctor.Running{Stage: s.Name, Workers: s.Workers, Oldest: time.Duration(s.OldestAgeSeconds * float64(time.Second))})
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	at, err := timeOf(ctx, addr)
	return all, at, err
}

// timeOf is the time that the fleet's server says it is.
func timeOf(ctx context.Context, addr string) (time.Time, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/healthz", nil)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return time.Time{}, err
	}
	defer answer.Body.Close()
	return http.ParseTime(answer.Header.Get("Date"))
}

// mostDead is as many dead steps as are counted.
const mostDead = 500

func deadSteps(ctx context.Context, database string) (int, error) {
	record, err := job.Open(ctx, database, job.Options{})
	if err != nil {
		return 0, err
	}
	dead, err := record.DeadSteps(ctx, job.DeadFilter{Limit: mostDead})
	return len(dead), errors.Join(err, record.Close())
}
