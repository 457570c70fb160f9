package setting_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/provider"
	"github.com/stagefleet/stagefleet/pkg/setting"
)

var variable = regexp.MustCompile(`^FLEET_[A-Z0-9_]*[A-Z0-9]$`)

// read finds the names in the string literals of the module's code, tests and the list itself left out.
func read(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root && entry.Name() != ".." || entry.Name() == "testdata" || entry.Name() == "setting" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && variable.MatchString(text) {
					found[text] = path
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheListIsWhatTheCodeReads(t *testing.T) {
	found := read(t)
	seen := map[string]bool{}
	for _, s := range setting.All {
		if seen[s.Name] {
			t.Errorf("%s is listed twice", s.Name)
		}
		seen[s.Name] = true
		if found[s.Name] == "" {
			t.Errorf("%s is listed, but nothing reads it", s.Name)
		}
		if s.Meaning == "" || len(s.Readers) == 0 {
			t.Errorf("%s: say what it means and who reads it", s.Name)
		}
		if s.Secret != regexp.MustCompile(`KEY|SECRET|TOKEN`).MatchString(s.Name) {
			t.Errorf("%s: secret is %v", s.Name, s.Secret)
		}
	}
	for name, path := range found {
		if !seen[name] {
			t.Errorf("%s is read in %s and missing in setting.All", name, path)
		}
	}
	for _, name := range provider.Variables() {
		if !slices.Contains(setting.Names(setting.Worker), name) {
			t.Errorf("%s is a provider's, and no setting of a worker", name)
		}
	}
	defaults := map[string]string{provider.SpeechModel: provider.DefaultSpeechModel, provider.AnthropicModel: provider.DefaultAnthropicModel}
	for _, s := range setting.All {
		if want, ok := defaults[s.Name]; ok && s.Default != want {
			t.Errorf("%s has the default %q, want %q", s.Name, s.Default, want)
		}
	}
}

func TestAnUnknownVariableIsNamedWithTheNearestAndWithoutItsValue(t *testing.T) {
	for wrong, near := range map[string]string{
		"FLEET_SPECH_URL": "FLEET_SPEECH_URL", "FLEET_DATABASE": "FLEET_DATABASE_URL", "FLEET_ANTHROPIC_APIKEY": "FLEET_ANTHROPIC_API_KEY", "FLEET_": "FLEET_ENV",
	} {
		err := setting.Check([]string{"PATH=/bin", "FLEET_ADDR=x", wrong + "=sk-secret"})
		if err == nil || !strings.HasPrefix(err.Error(), wrong+" ") || !strings.Contains(err.Error(), near+"?") || strings.Contains(err.Error(), "sk-secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line that names %s", wrong, err, near)
		}
	}
	if err := setting.Check([]string{"FLEET_ADDR=x", "FLEETING=1", "AWS_REGION=x"}); err != nil {
		t.Error(err)
	}
}

func TestNoSecretIsShown(t *testing.T) {
	plain, secret := setting.Setting{}, setting.Setting{Secret: true}
	for _, c := range []struct {
		s           setting.Setting
		value, want string
	}{
		{plain, "", ""},
		{secret, "", ""},
		{secret, "sk-1", "(set, not shown)"},
		{plain, "10000", "10000"},
		{plain, "127.0.0.1:8080", "127.0.0.1:8080"},
		{plain, "sqlite:/x/fleet.db", "sqlite:/x/fleet.db"},
		{plain, "postgres://fleet:pass@db/fleet", "postgres://fleet:xxxxx@db/fleet"},
		{plain, "postgres://db/fleet?password=pass", "postgres://db/fleet?password=xxxxx"},
		{plain, "postgres://fleet:pa ss%zz@db/fleet", "(set, not shown)"},
	} {
		if got := c.s.Mask(c.value); got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.value, got, c.want)
		}
	}
}
