package scaffold

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed template
var texts embed.FS

var templates = template.Must(template.ParseFS(texts, "template/*.tmpl"))

// The lists of the tree that every stage stands in, by the text that a new line follows.
const (
	shapesList   = "var shapes = map[string]func() any{\n"
	programsList = "Programs: []worker.Program{\n"
	importsList  = "\t\"github.com/stagefleet/stagefleet/workers\"\n"
	toolsFile    = "scripts/tools.txt"
)

// changes is every file that the stage adds or alters.
func (m *manifest) changes(root string, s Stage, n filling) ([]change, error) {
	var all []change
	folder := filepath.Join("workers", s.Name)
	for _, f := range []struct{ path, template string }{
		{filepath.Join(folder, "main.go"), "main.go.tmpl"},
		{filepath.Join(folder, "handler/handler.go"), "handler.go.tmpl"},
		{filepath.Join(folder, "handler/handler_test.go"), "handler_test.go.tmpl"},
		{n.file(), "recording.go.tmpl"},
	} {
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, f.template, n); err != nil {
			return nil, fmt.Errorf("fill %s: %w", f.path, err)
		}
		c, err := formatted(f.path, b.String())
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	shape, err := os.ReadFile(filepath.Join(root, "pkg/recording/testdata/v1", n.From))
	if err != nil {
		return nil, fmt.Errorf("read the shape to begin with: %w", err)
	}
	all = append(all, change{path: "pkg/recording/testdata/v1/" + n.Fixture, text: shape})
	entry, err := m.entry(s)
	if err != nil {
		return nil, err
	}
	lists, err := n.lists(root)
	return append(append(all, entry), lists...), err
}

// lists enters the stage where the tree lists all of them.
func (n filling) lists(root string) ([]change, error) {
	shape := fmt.Sprintf("\t%q: func() any { return new(%s) },\n", strings.TrimSuffix(n.Fixture, ".json"), n.Type)
	shapes, err := edited(root, "pkg/recording/recording_test.go", shapesList, shapesList+shape)
	if err != nil {
		return nil, err
	}
	tools, err := edited(root, toolsFile, "\n"+n.After+":", "\n"+n.Name+":\n"+n.After+":")
	if err != nil {
		return nil, err
	}
	program := fmt.Sprintf("\t\t\tworker.Define(%q, %shandler.New),\n", n.Name, n.Package)
	imported := fmt.Sprintf("\t%shandler \"github.com/stagefleet/stagefleet/workers/%s/handler\"\n", n.Package, n.Name)
	programs, err := edited(root, "workers/pipeline_test.go", programsList, programsList+program)
	if err != nil {
		return nil, err
	}
	imports := strings.Replace(string(programs.text), importsList, importsList+imported, 1)
	c, err := formatted(programs.path, imports)
	c.old = programs.old
	return []change{shapes, tools, c}, err
}
