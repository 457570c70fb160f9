package scaffold

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// summary is what the manifest says of a stage that does nothing yet.
const summary = "pass on what comes in, unchanged"

// output is what a stage puts out: a type of package recording.
type output struct {
	name    string // of the type
	fixture string // of its released shape
	check   string // how its fields are checked
}

// outputOf reads it from the handler's constructor.
func outputOf(root, name string) (output, error) {
	dir := filepath.Join(root, "workers", name, "handler")
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return output{}, fmt.Errorf("read the handler of %s: %w", name, err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return output{}, refuse("the handler of %s does not parse: %v", name, err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "New" && f.Recv == nil {
				return readOutput(root, name, f)
			}
		}
	}
	return output{}, refuse("%s has no func New", filepath.Join("workers", name, "handler"))
}

func readOutput(root, name string, f *ast.FuncDecl) (output, error) {
	if f.Type.Results != nil && len(f.Type.Results.List) > 0 {
		if h, ok := f.Type.Results.List[0].Type.(*ast.IndexListExpr); ok && len(h.Indices) == 2 {
			if out, ok := h.Indices[1].(*ast.SelectorExpr); ok {
				return describe(root, out.Sel.Name)
			}
		}
	}
	return output{}, refuse("func New of %s does not return a worker.Handler[recording.In, recording.Out]", name)
}

// describe finds how the type's fields are checked and where its fixture is.
func describe(root, name string) (output, error) {
	out := output{name: name, fixture: filepath.Join("pkg/recording/testdata/v1", snake(name)+".json")}
	if !exists(filepath.Join(root, out.fixture)) {
		return out, refuse("the type %s has no fixture %s to begin with", name, out.fixture)
	}
	err := declarations(root, func(d ast.Decl) {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "check" || f.Recv == nil || fmt.Sprint(f.Recv.List[0].Type) != name {
			return
		}
		out.check = name + ".check()"
		if len(f.Type.Params.List) > 0 {
			out.check = name + `.check("")`
		}
	})
	if err == nil && out.check == "" {
		err = refuse("the type %s has no method check to build on", name)
	}
	return out, err
}

// declarations calls see for every declaration of package recording.
func declarations(root string, see func(ast.Decl)) error {
	files, err := filepath.Glob(filepath.Join(root, "pkg/recording/*.go"))
	if err != nil {
		return fmt.Errorf("read package recording: %w", err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return refuse("package recording does not parse: %v", err)
		}
		for _, d := range file.Decls {
			see(d)
		}
	}
	return nil
}

// filling is what the templates of the new files are filled with.
type filling struct {
	Name    string // of the stage
	After   string
	Package string // import name of its handler
	Type    string // what it puts out
	In      string // what it is given
	Check   string
	Fixture string // file name of the new shape
	From    string // of the one that it begins as
	Summary string
}

// newFilling refuses names that package recording has already.
func newFilling(root string, s Stage, out output) (filling, error) {
	n := filling{
		Name: s.Name, After: s.After, Package: strings.ReplaceAll(s.Name, "-", ""), Type: camel(s.Name) + "Output", Summary: summary,
		In: out.name, Check: out.check, From: filepath.Base(out.fixture),
	}
	n.Fixture = snake(n.Type) + ".json"
	taken := ""
	err := declarations(root, func(d ast.Decl) {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			return
		}
		for _, spec := range g.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == n.Type {
				taken = n.Type
			}
		}
	})
	if err != nil {
		return n, err
	}
	for _, path := range []string{n.file(), "pkg/recording/testdata/v1/" + n.Fixture} {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			taken = path
		}
	}
	if taken != "" {
		return n, refuse("%s is there already, and nothing is overwritten", taken)
	}
	return n, nil
}

// file is where the new type is declared.
func (n filling) file() string { return "pkg/recording/" + snake(n.Type) + ".go" }

// camel makes a Go name: noise-gate becomes NoiseGate.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// snake makes a file name: ClipOrder becomes clip_order.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
