package fleet

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/internal/localecs"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// ParseTasks reads counts of tasks such as "compile=3,transcribe=2" against the bounds of the manifest.
func ParseTasks(text string, pipeline stage.Pipeline) (map[string]int, error) {
	tasks := map[string]int{}
	for _, s := range pipeline {
		tasks[s.Name] = s.WithDefaults().Profile.MinTasks
	}
	if text == "" {
		return tasks, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		name, digits, _ := strings.Cut(strings.TrimSpace(entry), "=")
		s, ok := pipeline.Stage(name)
		if !ok {
			return nil, fmt.Errorf("workers %q: there is no stage %q", entry, name)
		}
		count, err := strconv.Atoi(digits)
		if err != nil || count < 0 || count > s.Profile.MaxTasks {
			return nil, fmt.Errorf("workers %q: the count must be 0 to %d", entry, s.Profile.MaxTasks)
		}
		tasks[name] = count
	}
	return tasks, nil
}

// services says how each stage's workers are run.
func (l Local) services(st *state, endpoint string) ([]localecs.Service, error) {
	stages, err := l.Pipeline.Ordered()
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	var services []localecs.Service
	for _, s := range stages {
		settings, err := l.Pipeline.Settings(localEnv, s.Name)
		if err != nil {
			return nil, fmt.Errorf("make the settings of %s: %w", s.Name, err)
		}
		own, err := settings.Env()
		if err != nil {
			return nil, err
		}
		env := inherited(l.Environ)
		for _, v := range own {
			env = append(env, v.String())
		}
		env = append(env, worker.EnvDatabase+"="+st.database(), worker.EnvBlob+"="+st.place(),
			"AWS_ENDPOINT_URL_SQS="+endpoint, "AWS_REGION="+localsqs.DefaultRegion,
			"AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_EC2_METADATA_DISABLED=true")
		services = append(services, localecs.Service{
			Name: s.Name, Binary: filepath.Join(l.Binaries, s.Name), Env: env, Count: l.Tasks[s.Name], StopTimeout: s.Durations.StopTimeout,
		})
	}
	return services, nil
}

// inherited leaves out what would contradict the local fleet: settings of another one, and accounts of a cloud. The
// settings of providers and of the log are a person's to make.
func inherited(environ []string) []string {
	passed := append(provider.Variables(), worker.EnvLogLevel)
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		foreign := slices.ContainsFunc([]string{"FLEET_", "AWS_", "ECS_", "TMPDIR"}, func(p string) bool { return strings.HasPrefix(name, p) })
		return foreign && !slices.Contains(passed, name)
	})
}
