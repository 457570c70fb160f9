//go:build containers

// Package docker_test runs the whole fleet in containers, from the images and the compose file of this folder, and does to
// it what only containers show: a frozen worker, a stop by the container runtime, a database that restarts or goes back in
// time, an upgrade with running work. It needs Docker and the images (docker/images.sh); scripts/containers.sh provides both.
package docker_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
	"go.yaml.in/yaml/v4"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/compose"
)

// service is what the compose file says of one. A field that is not here fails the tests: nothing that users run is left out.
type service struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Ports       []string          `yaml:"ports"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	DependsOn   []string          `yaml:"depends_on"`
	Healthcheck struct {
		Disable bool `yaml:"disable"`
	} `yaml:"healthcheck"`
	Restart     string        `yaml:"restart"`
	StopGrace   time.Duration `yaml:"stop_grace_period"`
	ReadOnly    bool          `yaml:"read_only"`
	Init        bool          `yaml:"init"`
	CapDrop     []string      `yaml:"cap_drop"`
	SecurityOpt []string      `yaml:"security_opt"`
}

// composed is the fleet that the compose file describes, in a network and volumes of its own.
type composed struct {
	services map[string]service
	volumes  []string
	prefix   string // of volumes
	net      *testcontainers.DockerNetwork
	running  map[string][]*testcontainers.DockerContainer // by service, the newest first
	key      string
}

func readCompose() (*composed, error) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		return nil, err
	}
	var file struct {
		Services map[string]service  `yaml:"services"`
		Volumes  map[string]struct{} `yaml:"volumes"`
	}
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&file); err != nil {
		return nil, err
	}
	prefix := "stagefleet-test-" + strings.ToLower(rand.Text()[:8]) + "-"
	return &composed{
		services: file.Services, volumes: slices.Sorted(maps.Keys(file.Volumes)), prefix: prefix,
		running: map[string][]*testcontainers.DockerContainer{},
	}, nil
}

// up starts every service after those that it depends on, as Compose does, and waits for the API and its key.
func (c *composed) up(ctx context.Context) error {
	var err error
	if c.net, err = network.New(ctx); err != nil {
		return err
	}
	for len(c.running) < len(c.services) {
		before := len(c.running)
		for _, name := range slices.Sorted(maps.Keys(c.services)) {
			if c.running[name] != nil || slices.ContainsFunc(c.services[name].DependsOn, func(d string) bool { return c.running[d] == nil }) {
				continue
			}
			if _, err := c.start(ctx, name); err != nil {
				return err
			}
		}
		if len(c.running) == before {
			return errors.New("the services depend on each other in a circle")
		}
	}
	if err := c.answers(ctx); err != nil {
		return err
	}
	file, err := c.running["key"][0].CopyFileFromContainer(ctx, compose.KeyPath)
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	text, err := io.ReadAll(file)
	c.key = strings.TrimSpace(string(text))
	return errors.Join(err, file.Close())
}

// start runs one more container of a service.
func (c *composed) start(ctx context.Context, name string, more ...testcontainers.ContainerCustomizer) (*testcontainers.DockerContainer, error) {
	s := c.services[name]
	options := []testcontainers.ContainerCustomizer{
		network.WithNetwork([]string{name}, c.net), testcontainers.WithEnv(s.environment()),
		testcontainers.WithConfigModifier(func(config *container.Config) {
			if s.Healthcheck.Disable {
				config.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
			}
			grace := int(s.StopGrace.Seconds())
			config.StopTimeout = &grace
			if grace == 0 {
				config.StopTimeout = nil
			}
		}),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.ReadonlyRootfs, host.Init, host.CapDrop, host.SecurityOpt = s.ReadOnly, &s.Init, s.CapDrop, s.SecurityOpt
			host.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyMode(s.Restart)}
			for _, v := range s.Volumes {
				volume, path, _ := strings.Cut(v, ":")
				host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeVolume, Source: c.prefix + volume, Target: path})
			}
		}),
	}
	if s.Command != nil {
		options = append(options, testcontainers.WithCmd(s.Command...))
	}
	for _, p := range s.Ports {
		options = append(options, testcontainers.WithExposedPorts(p[strings.LastIndex(p, ":")+1:]))
	}
	ctr, err := testcontainers.Run(ctx, s.Image, append(options, more...)...)
	if ctr != nil {
		c.running[name] = slices.Insert(c.running[name], 0, ctr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return ctr, nil
}

func (s service) environment() map[string]string {
	env := map[string]string{}
	for name, value := range s.Environment {
		env[name] = strings.ReplaceAll(value, "$$", "$")
	}
	return env
}

// once runs a container of the fleet's image to its end and returns what it says.
func (c *composed) once(ctx context.Context, env map[string]string, words []string, more ...testcontainers.ContainerCustomizer) (string, error) {
	options := append([]testcontainers.ContainerCustomizer{
		network.WithNetwork(nil, c.net), testcontainers.WithEnv(env), testcontainers.WithCmd(words...),
		testcontainers.WithWaitStrategy(wait.ForExit().WithExitTimeout(2 * time.Minute)),
	}, more...)
	ctr, err := testcontainers.Run(ctx, c.services["server"].Image, options...)
	if err != nil {
		return "", err
	}
	defer func() { _ = ctr.Terminate(context.WithoutCancel(ctx)) }()
	state, err := ctr.State(ctx)
	if err != nil {
		return "", err
	}
	logs, err := ctr.Logs(ctx)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(logs)
	if err == nil && state.ExitCode != 0 {
		err = fmt.Errorf("fleet %s: exit %d: %s", strings.Join(words, " "), state.ExitCode, text)
	}
	return string(text), err
}

// addr is where the API of the newest server answers on this machine.
func (c *composed) addr(ctx context.Context) (string, error) {
	return c.running["server"][0].PortEndpoint(ctx, "8080/tcp", "")
}

// answers waits until the API does.
func (c *composed) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		addr, err := c.addr(ctx)
		if err == nil {
			err = api.NewClient(addr).Health(ctx)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the fleet does not come up: %w", err)
		case <-time.After(time.Second):
		}
	}
}

// down removes everything; volumes go with the last container that has them.
func (c *composed) down(ctx context.Context) error {
	var all []*testcontainers.DockerContainer
	for _, of := range c.running {
		all = append(all, of...)
	}
	names := make([]string, len(c.volumes))
	for i, v := range c.volumes {
		names[i] = c.prefix + v
	}
	var faults []error
	for i, ctr := range all {
		options := []testcontainers.TerminateOption{testcontainers.StopTimeout(time.Second)}
		if i == len(all)-1 {
			options = append(options, testcontainers.RemoveVolumes(names...))
		}
		faults = append(faults, ctr.Terminate(ctx, options...))
	}
	if c.net != nil {
		faults = append(faults, c.net.Remove(ctx))
	}
	return errors.Join(faults...)
}
