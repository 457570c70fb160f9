package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The environment variables that carry a stage's settings to its worker.
const (
	EnvStage     = "FLEET_STAGE"
	EnvStageHash = "FLEET_STAGE_HASH"
	EnvName      = "FLEET_ENV"
)

// settingsVersion is the version of the settings' JSON.
const settingsVersion = 1

// Settings is everything a worker needs to know about its stage: the stage
// itself, where its messages are and where its results go.
type Settings struct {
	V           int    `json:"v"`
	Environment string `json:"env"`
	Stage       Stage  `json:"stage"`
	Own         Route  `json:"own"`
	// Next is nil for the last stage.
	Next *Route `json:"next"`
	// Join is where the fan-in of a stage that fans out goes; nil for any other.
	Join *Route `json:"join"`
}

// Var is one environment variable.
type Var struct{ Name, Value string }

// String returns NAME=VALUE.
func (v Var) String() string { return v.Name + "=" + v.Value }

// Settings returns the settings of one stage in an environment. It validates the
// whole manifest first.
func (p Pipeline) Settings(env, name string) (Settings, error) {
	if err := CheckEnv(env); err != nil {
		return Settings{}, err
	}
	if err := p.Validate(); err != nil {
		return Settings{}, err
	}
	own, err := p.Route(env, name)
	if err != nil {
		return Settings{}, err
	}
	s, _ := p.Stage(name)
	set := Settings{V: settingsVersion, Environment: env, Stage: s, Own: own}
	if s.Next != "" {
		next, _ := p.Route(env, s.Next)
		set.Next = &next
	}
	if s.FanOut {
		set.Join = p.joinOf(env, s)
	}
	return set, nil
}

// joinOf returns the route of the first join after a stage that fans out.
func (p Pipeline) joinOf(env string, s Stage) *Route {
	for next, ok := p.Stage(s.Next); ok; next, ok = p.Stage(next.Next) {
		if next.Join {
			r, _ := p.Route(env, next.Name)
			return &r
		}
	}
	return nil
}

// Env returns the settings as the environment variables of a worker, always in
// the same order and with the same bytes for the same settings.
func (s Settings) Env() ([]Var, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode settings of stage %s: %w", s.Stage.Name, err)
	}
	return []Var{{EnvStage, string(text)}, {EnvStageHash, hash(text)}, {EnvName, s.Environment}}, nil
}

// Hash identifies the settings: the hexadecimal SHA-256 of their JSON.
func (s Settings) Hash() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // unreachable: the struct holds only encodable fields
	}
	return hash(text)
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// SettingsError says which variable of the environment cannot be used, and why.
type SettingsError struct {
	Name string
	Err  error
}

// Error returns one line that names the variable.
func (e *SettingsError) Error() string {
	return e.Name + ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap returns the reason.
func (e *SettingsError) Unwrap() error { return e.Err }

// ErrNotMine is the reason when the settings are those of another stage.
var ErrNotMine = errors.New("the settings are another stage's")

// ParseEnv reads the settings that Env produced for the stage of that name. It
// refuses unknown fields, another hash, another stage's settings, and settings
// that do not validate; the error is a *SettingsError.
func ParseEnv(getenv func(string) string, name string) (Settings, error) {
	text := getenv(EnvStage)
	if text == "" {
		return Settings{}, &SettingsError{EnvStage, errors.New("is not set; the fleet sets it from the manifest")}
	}
	if want := getenv(EnvStageHash); want != hash([]byte(text)) {
		return Settings{}, &SettingsError{EnvStageHash, fmt.Errorf("%q is not the hash of %s, which is %s", want, EnvStage, hash([]byte(text)))}
	}
	s, err := decode(text)
	if err != nil {
		return Settings{}, &SettingsError{EnvStage, err}
	}
	if s.Stage.Name != name {
		return Settings{}, &SettingsError{EnvStage, fmt.Errorf("%w: %q, and this worker is %q", ErrNotMine, s.Stage.Name, name)}
	}
	if env := getenv(EnvName); env != s.Environment {
		return Settings{}, &SettingsError{EnvName, fmt.Errorf("%q is not the environment of the settings, %q", env, s.Environment)}
	}
	return s, nil
}

func decode(text string) (Settings, error) {
	var s Settings
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Settings{}, fmt.Errorf("decode: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Settings{}, errors.New("decode: text after the settings")
	}
	if s.V != settingsVersion {
		return Settings{}, fmt.Errorf("version %d of the settings, this worker reads %d", s.V, settingsVersion)
	}
	return s, s.Validate()
}

// Hash identifies all that the manifest says of an environment: the hexadecimal SHA-256 of
// the settings of every stage in the order of the work.
func (p Pipeline) Hash(env string) (string, error) {
	stages, err := p.Ordered()
	if err != nil {
		return "", err
	}
	var all []Settings
	for _, s := range stages {
		set, err := p.Settings(env, s.Name)
		if err != nil {
			return "", err
		}
		all = append(all, set)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("encode the manifest: %w", err)
	}
	return hash(text), nil
}
