// Package compose writes the file that runs a whole fleet in containers on one machine: Postgres, an SQS server, the
// server and a worker of every stage. It promises that a stage's settings are the manifest's, with the times of a local
// fleet, because Settings.Env makes them, and the same bytes for the same manifest. Command fleet is the caller.
package compose

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// Env is the environment's name in the queue names of the containers.
const Env = "containers"

// Where the parts find each other. All have the network of the file; only the API is reachable from outside, on the host's
// loopback interface unless FLEET_ADDR says otherwise, and it asks for a key.
const (
	apiPort  = "8080"
	sqsPort  = "59324"
	postgres = "postgres:5432"
	password = "fleet" // of a database that only this network reaches
)

// KeyPath is where the service "key" keeps the operator's key, in a volume that no other service has.
const KeyPath = "/data/key"

type file struct {
	Services map[string]service  `yaml:"services"`
	Volumes  map[string]struct{} `yaml:"volumes"`
}

type service struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command,omitempty,flow"`
	Ports       []string          `yaml:"ports,omitempty"`
	Environment map[string]string `yaml:"environment,omitempty"`
	Volumes     []string          `yaml:"volumes,omitempty"`
	DependsOn   []string          `yaml:"depends_on,omitempty"`
	Healthcheck map[string]bool   `yaml:"healthcheck,omitempty"`
	Restart     string            `yaml:"restart,omitempty"`
	StopGrace   string            `yaml:"stop_grace_period,omitempty"`
	ReadOnly    bool              `yaml:"read_only,omitempty"`
	Init        bool              `yaml:"init,omitempty"`
	CapDrop     []string          `yaml:"cap_drop,omitempty,flow"`
	SecurityOpt []string          `yaml:"security_opt,omitempty,flow"`
}

const head = "# Written by `fleet compose` from workers/stages.go; edit that instead. `make up-containers` runs it.\n"

// File returns the file for a manifest.
func File(p stage.Pipeline) ([]byte, error) {
	p = p.Scaled(stage.LocalScale)
	stages, err := p.Ordered()
	if err != nil {
		return nil, err
	}
	f := file{Services: surroundings(), Volumes: map[string]struct{}{"database": {}, "key": {}, "objects": {}, "queues": {}}}
	for _, s := range stages {
		if f.Services[s.Name], err = workerOf(p, s); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	b.WriteString(head)
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	if err := out.Encode(f); err != nil {
		return nil, fmt.Errorf("encode the file: %w", err)
	}
	return b.Bytes(), out.Close()
}

// surroundings are what the workers need. Nothing waits for another's health: who comes too early is started again.
func surroundings() map[string]service {
	fleet := func(restart string, command ...string) service {
		return hardened(service{Image: "stagefleet/fleet", Command: command, Restart: restart})
	}
	once := func(after string, command ...string) service {
		s := fleet("on-failure", command...)
		s.DependsOn, s.Healthcheck = []string{after}, map[string]bool{"disable": true}
		s.Environment = map[string]string{worker.EnvDatabase: database()}
		return s
	}
	key := once("migrate", "keys", "first", "--out", KeyPath)
	key.Volumes = []string{"key:/data"}
	queues := fleet("unless-stopped", "sqs", "--addr", "0.0.0.0:"+sqsPort, "--dir", "/data", "--env", Env)
	queues.Volumes, queues.Healthcheck = []string{"queues:/data"}, map[string]bool{"disable": true}
	server := fleet("unless-stopped", "serve", "--addr", "0.0.0.0:"+apiPort)
	server.Ports, server.Volumes, server.DependsOn = []string{"${FLEET_ADDR:-127.0.0.1:8080}:" + apiPort}, []string{"objects:/data"}, []string{"key", "queues"}
	server.Environment = common()
	server.Environment[stage.EnvName] = Env
	return map[string]service{"queues": queues, "migrate": once("postgres", "migrate"), "key": key, "server": server, "postgres": {
		Image: "stagefleet/postgres", Environment: map[string]string{"POSTGRES_PASSWORD": password}, Restart: "unless-stopped",
		Volumes: []string{"database:/var/lib/postgresql/data"}, StopGrace: "30s",
	}}
}

func workerOf(p stage.Pipeline, s stage.Stage) (service, error) {
	settings, err := p.Settings(Env, s.Name)
	if err != nil {
		return service{}, err
	}
	vars, err := settings.Env()
	if err != nil {
		return service{}, err
	}
	env := common()
	for _, v := range vars {
		env[v.Name] = strings.ReplaceAll(v.Value, "$", "$$") // a lone one would be a variable of compose
	}
	return hardened(service{
		Image: "stagefleet/" + s.Name, Environment: env, Volumes: []string{"objects:/data"}, DependsOn: []string{"migrate", "queues"},
		Restart: "unless-stopped", StopGrace: s.Durations.StopTimeout.Truncate(time.Second).String(),
	}), nil
}

// hardened is how a task of ours runs, here as on ECS.
func hardened(s service) service {
	s.ReadOnly, s.Init, s.CapDrop, s.SecurityOpt = true, true, []string{"ALL"}, []string{"no-new-privileges:true"}
	return s
}

func common() map[string]string {
	return map[string]string{
		worker.EnvDatabase: database(), worker.EnvBlob: "file:///data", "AWS_ENDPOINT_URL_SQS": "http://queues:" + sqsPort, "AWS_REGION": localsqs.DefaultRegion,
		"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_EC2_METADATA_DISABLED": "true",
	}
}

func database() string {
	return "postgres://fleet:" + password + "@" + postgres + "/fleet?sslmode=disable"
}
