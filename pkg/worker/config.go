package worker

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/setting"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// The environment of a worker besides its stage's settings (see stage.ParseEnv)
// and those of the providers (see provider.Variables).
const (
	EnvDatabase   = "FLEET_DATABASE_URL" // sqlite:PATH or postgres://...; required
	EnvBlob       = "FLEET_BLOB_URL"     // file:///folder or s3://bucket/prefix; required
	EnvHealthAddr = "FLEET_HEALTH_ADDR"  // address of /healthz, /readyz and /metrics; empty: not served
	EnvParentFD   = "FLEET_PARENT_FD"    // descriptor whose end of file drains the worker; empty: none
	EnvLogLevel   = "FLEET_LOG_LEVEL"    // debug, info, warn or error; default info

	// EnvMetrics says where metrics go besides /metrics: emf writes those behind alarms into the log, for CloudWatch; empty: nowhere.
	EnvMetrics = "FLEET_METRICS"

	// EnvSwitch names the SSM parameter of the kill switch (see package control); empty: there is none.
	EnvSwitch = "FLEET_SWITCH_PARAMETER"
)

// MetricsEMF is the value of EnvMetrics that turns metrics in the log on.
const MetricsEMF = "emf"

// DefaultLogLevel is the log level when EnvLogLevel is empty.
const DefaultLogLevel = "info"

// Config is the environment of a worker process, read once at its start.
type Config struct {
	Settings   stage.Settings
	Database   string
	Blob       string
	HealthAddr string
	ParentFD   int // 0: none
	LogLevel   string
	Switch     string // name of the kill switch's parameter; empty: none
	Emit       bool   // metrics into the log, see EnvMetrics
	AgentURI   string // of the ECS agent (ECS_AGENT_URI); empty: no protection
}

// ParseConfig reads the environment, given as NAME=value, of the worker of that
// name. The error is one line with name, value and bound. Values of unknown
// variables are not repeated: they may be secrets with a misspelt name.
func ParseConfig(environ []string, name string) (Config, error) {
	if err := setting.Check(environ); err != nil {
		return Config{}, err
	}
	known, env := setting.Names(setting.Worker), map[string]string{}
	for _, e := range environ {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
		if strings.HasPrefix(k, setting.Prefix) && !slices.Contains(known, k) {
			return Config{}, fmt.Errorf("%s is set, but is no setting of a worker, must be one of %s", k, strings.Join(known, " "))
		}
	}
	settings, err := stage.ParseEnv(func(k string) string { return env[k] }, name)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Settings: settings, Database: env[EnvDatabase], Blob: env[EnvBlob], HealthAddr: env[EnvHealthAddr],
		LogLevel: env[EnvLogLevel], Switch: env[EnvSwitch], Emit: env[EnvMetrics] == MetricsEMF, AgentURI: env["ECS_AGENT_URI"],
	}
	if c.LogLevel == "" {
		c.LogLevel = DefaultLogLevel
	}
	if fd := env[EnvParentFD]; fd != "" {
		if c.ParentFD, err = strconv.Atoi(fd); err != nil || c.ParentFD < 3 {
			return Config{}, fmt.Errorf("%s is %q, must be a number from 3", EnvParentFD, fd)
		}
	}
	if m := env[EnvMetrics]; m != "" && m != MetricsEMF {
		return Config{}, fmt.Errorf("%s is %q, must be %s or empty", EnvMetrics, m, MetricsEMF)
	}
	return c, c.validate()
}

func (c Config) validate() error {
	if scheme, _, _ := strings.Cut(c.Database, ":"); !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme) {
		return fmt.Errorf("%s has the scheme %q, must be sqlite:PATH or postgres://", EnvDatabase, scheme)
	}
	if u, err := url.Parse(c.Blob); err != nil || !slices.Contains([]string{"file", "s3"}, u.Scheme) {
		return fmt.Errorf("%s is %q, must be file:///folder or s3://bucket/prefix", EnvBlob, c.Blob)
	}
	if c.HealthAddr != "" {
		if _, _, err := net.SplitHostPort(c.HealthAddr); err != nil {
			return fmt.Errorf("%s is %q, must be host:port", EnvHealthAddr, c.HealthAddr)
		}
	}
	if u, err := url.Parse(c.AgentURI); err != nil || (c.AgentURI != "" && u.Scheme != "http") {
		return fmt.Errorf("ECS_AGENT_URI is %q, must be an http address", c.AgentURI)
	}
	if c.Switch != "" && !strings.HasPrefix(c.Switch, "/") {
		return fmt.Errorf("%s is %q, must be the name of a parameter, beginning with a slash", EnvSwitch, c.Switch)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		return fmt.Errorf("%s is %q, must be debug, info, warn or error", EnvLogLevel, c.LogLevel)
	}
	return nil
}
