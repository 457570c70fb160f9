package scaffold

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

const manifestFile = "workers/stages.go"

// manifest is workers/stages.go: what it says, and where in its text it says it.
type manifest struct {
	text    []byte
	stages  stage.Pipeline
	ends    []int    // offset after each entry
	nextLit [][2]int // offsets of each entry's Next string; zeros: it has none
}

func readManifest(root string) (*manifest, error) {
	text, err := os.ReadFile(filepath.Join(root, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, manifestFile, text, 0)
	if err != nil {
		return nil, refuse("the manifest does not parse: %v", err)
	}
	m := &manifest{text: text}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	list, ok := stagesLiteral(file)
	if !ok {
		return nil, refuse("%s has no literal `var Stages = stage.Pipeline{...}`", manifestFile)
	}
	for _, e := range list.Elts {
		entry, ok := e.(*ast.CompositeLit)
		if !ok {
			return nil, refuse("%s has an entry that is not a literal", manifestFile)
		}
		s, next := readEntry(entry)
		m.stages = append(m.stages, s)
		m.ends = append(m.ends, offset(entry.End()))
		at := [2]int{}
		if next != nil {
			at = [2]int{offset(next.Pos()), offset(next.End())}
		}
		m.nextLit = append(m.nextLit, at)
	}
	if err := m.stages.Validate(); err != nil {
		return nil, refuse("the manifest does not hold as it is: %v", err)
	}
	return m, nil
}

func stagesLiteral(file *ast.File) (*ast.CompositeLit, bool) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.VAR {
			continue
		}
		for _, s := range decl.Specs {
			v := s.(*ast.ValueSpec)
			if len(v.Names) == 1 && v.Names[0].Name == "Stages" && len(v.Values) == 1 {
				list, ok := v.Values[0].(*ast.CompositeLit)
				return list, ok
			}
		}
	}
	return nil, false
}

// readEntry reads what matters for the graph.
func readEntry(entry *ast.CompositeLit) (s stage.Stage, next ast.Expr) {
	for _, e := range entry.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, _ := field.Key.(*ast.Ident)
		switch key.Name {
		case "Name":
			s.Name = text(field.Value)
		case "Summary":
			s.Summary = text(field.Value)
		case "Next":
			s.Next, next = text(field.Value), field.Value
		case "FanOut":
			s.FanOut = isTrue(field.Value)
		case "Join":
			s.Join = isTrue(field.Value)
		case "Queue":
			if kind, ok := field.Value.(*ast.SelectorExpr); ok && kind.Sel.Name == "Standard" {
				s.Queue = stage.Standard
			}
		}
	}
	return s, next
}

func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value) // what does not unquote does not parse
	return s
}

func isTrue(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "true"
}

// with is the pipeline with the stage in its place.
func (m *manifest) with(s Stage) stage.Pipeline {
	p := slices.Clone(m.stages)
	i := slices.IndexFunc(p, func(o stage.Stage) bool { return o.Name == s.After })
	added := stage.Stage{Name: s.Name, Summary: summary, Queue: s.Queue, Next: p[i].Next}
	p[i].Next = s.Name
	return slices.Insert(p, i+1, added)
}

// check refuses what cannot be, in the order in which a person would want to know.
func (m *manifest) check(root string, s Stage) error {
	if err := (stage.Stage{Name: s.Name, Summary: summary, Queue: s.Queue}).Validate(); err != nil {
		return refuse("%v", err)
	}
	if s.Name == "vendor" || s.Name == "testdata" {
		return refuse("the go command takes a folder %s for something else: give the stage another name", s.Name)
	}
	if _, there := m.stages.Stage(s.Name); there || exists(filepath.Join(root, "workers", s.Name)) {
		return refuse("there is a stage %s already", s.Name)
	}
	after, ok := m.stages.Stage(s.After)
	if !ok {
		return refuse("there is no stage %q to follow; the manifest has %s", s.After, names(m.stages))
	}
	if after.Next == "" {
		return refuse("%s is the last stage, and what the last one puts out is the job's result: put the new stage before it", after.Name)
	}
	if after.FanOut {
		return refuse("%s fans out, and %s must follow it to make the parts: nothing fits between them", after.Name, after.Next)
	}
	if next, _ := m.stages.Stage(after.Next); next.Join {
		return refuse("%s makes the parts that %s joins: nothing fits between them", after.Name, next.Name)
	}
	if err := m.with(s).Validate(); err != nil {
		return refuse("the manifest would not hold: %v", err)
	}
	return nil
}

// entry is the manifest with the stage in it.
func (m *manifest) entry(s Stage) (change, error) {
	i := slices.IndexFunc(m.stages, func(o stage.Stage) bool { return o.Name == s.After })
	queue := ""
	if s.Queue == stage.Standard {
		queue = "Queue: stage.Standard, "
	}
	added := fmt.Sprintf(",\n{\nName: %q, Summary: %q,\n%sNext: %q,\nReadsOnly: true,\nProfile: stage.Profile{Slots: 1, MinTasks: 1, MaxTasks: 2, TimeLimit: 10 * time.Minute},\n}",
		s.Name, summary, queue, m.stages[i].Next)
	next := m.nextLit[i]
	source := string(m.text[:next[0]]) + strconv.Quote(s.Name) + string(m.text[next[1]:m.ends[i]]) + added + string(m.text[m.ends[i]:])
	c, err := formatted(manifestFile, source)
	c.old = m.text
	return c, err
}
