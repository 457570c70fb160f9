// Package setting is the one list of the environment variables that Stagefleet reads: every name with the prefix FLEET_ is here, or
// it is refused, so that a misspelt setting is never silently ignored. `fleet env` shows the list.
//
// A value that is a secret, or an address with one in it, leaves this package only masked.
package setting

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Prefix begins every name. Other variables are other programs' affair.
const Prefix = "FLEET_"

// Reader is a kind of process that reads a setting.
type Reader string

// Those who read settings. Both servers, `fleet up` and `fleet serve`, hand nothing of theirs to workers.
const (
	Client Reader = "client"
	Server Reader = "server"
	Worker Reader = "worker"
)

// Setting is one variable. An empty or absent variable means its default.
type Setting struct {
	Name    string   `json:"name"`
	Readers []Reader `json:"readers"`
	Meaning string   `json:"meaning"`
	Default string   `json:"default"` // in words when it is not a value; empty: none
	Secret  bool     `json:"secret"`
}

// All is the list, in the order in which it is shown.
var All = []Setting{
	{Name: "FLEET_ADDR", Readers: []Reader{Client, Server}, Meaning: "address of the API, host:port", Default: "127.0.0.1:8080"},
	{Name: "FLEET_ENV", Readers: []Reader{Server, Worker}, Meaning: "name of the environment in the names of queues"},
	{Name: "FLEET_KEY", Readers: []Reader{Client}, Meaning: "API key that commands send", Default: "the key of the local fleet in this folder, if there is one", Secret: true},
	{Name: "FLEET_DATABASE_URL", Readers: []Reader{Server, Worker}, Meaning: "the record, sqlite:PATH or postgres://..."},
	{Name: "FLEET_BLOB_URL", Readers: []Reader{Server, Worker}, Meaning: "the objects, file:///folder or s3://bucket/prefix"},
	{Name: "FLEET_SOFT_LIMIT", Readers: []Reader{Server}, Meaning: "with so many jobs in flight, further ones wait for capacity; 0: no limit", Default: "10000"},
	{Name: "FLEET_HARD_LIMIT", Readers: []Reader{Server}, Meaning: "with so many, waiting ones included, further ones are refused; 0: no limit", Default: "100000"},
	{Name: "FLEET_PROVIDER_SECRETS", Readers: []Reader{Server}, Meaning: "secrets by which providers sign their events, provider=whsec_... and commas between them", Default: "no provider's event is accepted", Secret: true},
	{Name: "FLEET_TRUSTED_PROXIES", Readers: []Reader{Server}, Meaning: "addresses and networks of proxies whose X-Forwarded-For says who a caller is, as for the limit on wrong keys; commas between them", Default: "nobody is trusted"},
	{Name: "FLEET_STAGE", Readers: []Reader{Worker}, Meaning: "the stage's settings, JSON made from the manifest"},
	{Name: "FLEET_STAGE_HASH", Readers: []Reader{Worker}, Meaning: "their checksum"},
	{Name: "FLEET_SWITCH_PARAMETER", Readers: []Reader{Worker}, Meaning: "name of the SSM parameter of the kill switch", Default: "no kill switch"},
	{Name: "FLEET_HEALTH_ADDR", Readers: []Reader{Worker}, Meaning: "address of /healthz, /readyz and /metrics, host:port", Default: "not served"},
	{Name: "FLEET_LOG_LEVEL", Readers: []Reader{Worker}, Meaning: "debug, info, warn or error", Default: "info"},
	{Name: "FLEET_METRICS", Readers: []Reader{Server, Worker}, Meaning: "emf writes the metrics behind alarms into the log too, for CloudWatch", Default: "only /metrics"},
	{Name: "FLEET_PARENT_FD", Readers: []Reader{Worker}, Meaning: "descriptor whose end of file drains the worker", Default: "none"},
	{Name: "FLEET_SPEECH_URL", Readers: []Reader{Worker}, Meaning: "base of an OpenAI-compatible speech service", Default: "pocketsphinx, offline"},
	{Name: "FLEET_SPEECH_API_KEY", Readers: []Reader{Worker}, Meaning: "its bearer token", Secret: true},
	{Name: "FLEET_SPEECH_MODEL", Readers: []Reader{Worker}, Meaning: "its model", Default: "whisper-1"},
	{Name: "FLEET_ANTHROPIC_API_KEY", Readers: []Reader{Worker}, Meaning: "turns on the vision and the language model", Default: "both decline", Secret: true},
	{Name: "FLEET_ANTHROPIC_URL", Readers: []Reader{Worker}, Meaning: "another address that speaks the same API", Default: "Anthropic's"},
	{Name: "FLEET_ANTHROPIC_MODEL", Readers: []Reader{Worker}, Meaning: "the vision and language model", Default: "claude-sonnet-5-5"},
}

// Names lists what a reader reads.
func Names(by Reader) []string {
	var names []string
	for _, s := range All {
		if slices.Contains(s.Readers, by) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Check finds the first variable of an environment, given as NAME=value, that has the prefix and is no setting. The error is
// one line that names it and the setting it is nearest to; the value, which may be a secret, is not in it.
func Check(environ []string) error {
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, Prefix) && !slices.ContainsFunc(All, func(s Setting) bool { return s.Name == name }) {
			return fmt.Errorf("%s is set, but there is no such setting; did you mean %s? `fleet env` lists them", name, nearest(name))
		}
	}
	return nil
}

// nearest is the setting that the fewest changed letters make of name.
func nearest(name string) string {
	best, least := "", 0
	for _, s := range All {
		if d := distance(name, s.Name); best == "" || d < least {
			best, least = s.Name, d
		}
	}
	return best
}

// distance is Levenshtein's: letters put in, left out or exchanged.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			exchanged := diagonal
			if a[i] != b[j] {
				exchanged++
			}
			diagonal = row[j+1]
			row[j+1] = min(exchanged, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Mask is a value as it may be shown.
func (s Setting) Mask(value string) string {
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	switch {
	case s.Secret, err != nil && strings.Contains(value, "@"):
		return "(set, not shown)"
	case err != nil || u.Scheme == "":
		return value
	}
	query := u.Query()
	for name := range query {
		query.Set(name, "xxxxx")
	}
	if u.RawQuery != "" {
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}
