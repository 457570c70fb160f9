package infra_test

import (
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"

	"github.com/stagefleet/stagefleet/pkg/infra"
	"github.com/stagefleet/stagefleet/workers"
)

// permission is what IAM asks for a call, where it is not the call's own name: batches are granted as the single call, and
// parts of an object as the object (Service Authorization Reference, Amazon SQS and Amazon S3).
var permission = map[string][]string{
	"sqs:SendMessageBatch":             {"sqs:SendMessage"},
	"sqs:DeleteMessageBatch":           {"sqs:DeleteMessage"},
	"sqs:ChangeMessageVisibilityBatch": {"sqs:ChangeMessageVisibility"},
	"s3:HeadObject":                    {"s3:GetObject"},
	"s3:CopyObject":                    {"s3:GetObject", "s3:PutObject"},
	"s3:CreateMultipartUpload":         {"s3:PutObject"},
	"s3:UploadPart":                    {"s3:PutObject"},
	"s3:CompleteMultipartUpload":       {"s3:PutObject"},
	"s3:ListObjectsV2":                 {"s3:ListBucket"},
}

// walk finds what can be reached from a function: what it calls, the functions that it mentions, and methods of the values
// that it turns into interfaces. Of an interface of the module those count that something reached calls; of other packages'
// interfaces all, because who calls them is not looked at.
type walk struct {
	program   *ssa.Program
	seen      map[*ssa.Function]bool
	calls     map[string]bool // such as sqs:ReceiveMessage
	invoked   map[string]bool // methods, by name
	converted []types.Type
}

const module = "github.com/stagefleet/stagefleet"

func (w *walk) visit(f *ssa.Function) {
	if f == nil || w.seen[f] {
		return
	}
	w.seen[f] = true
	for _, b := range f.Blocks {
		for _, instruction := range b.Instrs {
			for _, operand := range instruction.Operands(nil) {
				if called, ok := (*operand).(*ssa.Function); ok {
					w.visit(called)
				}
			}
			switch i := instruction.(type) {
			case ssa.CallInstruction:
				w.called(i.Common())
				if i.Common().IsInvoke() {
					w.invoke(i.Common().Method.Name())
				}
			case *ssa.MakeInterface:
				w.convert(i)
			}
		}
	}
}

func (w *walk) invoke(name string) {
	if w.invoked[name] {
		return
	}
	w.invoked[name] = true
	for _, t := range w.converted {
		w.method(t, name)
	}
}

func (w *walk) convert(i *ssa.MakeInterface) {
	w.converted = append(w.converted, i.X.Type())
	for name := range w.invoked {
		w.method(i.X.Type(), name)
	}
	if named, ok := types.Unalias(i.Type()).(*types.Named); ok && named.Obj().Pkg() != nil && strings.HasPrefix(named.Obj().Pkg().Path(), module) {
		return
	}
	for method := range i.Type().Underlying().(*types.Interface).Methods() {
		w.method(i.X.Type(), method.Name())
	}
}

func (w *walk) method(of types.Type, name string) {
	methods := types.NewMethodSet(of)
	for m := range methods.Methods() {
		if m.Obj().Name() == name {
			w.visit(w.program.MethodValue(m))
		}
	}
}

// called notes a call that takes an operation's input.
func (w *walk) called(c *ssa.CallCommon) {
	for _, arg := range c.Args {
		pointer, ok := arg.Type().(*types.Pointer)
		if !ok {
			continue
		}
		named, ok := pointer.Elem().(*types.Named)
		if !ok || named.Obj().Pkg() == nil {
			continue
		}
		_, service, sdk := strings.Cut(named.Obj().Pkg().Path(), "aws-sdk-go-v2/service/")
		if operation, input := strings.CutSuffix(named.Obj().Name(), "Input"); sdk && input {
			w.calls[service+":"+operation] = true
		}
	}
}

// needed are the permissions for the calls that can be reached.
func (w *walk) needed() []string {
	all := map[string]bool{}
	for call := range w.calls {
		if actions, ok := permission[call]; ok {
			for _, a := range actions {
				all[a] = true
			}
			continue
		}
		all[call] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// granted are the actions of the stack's task role.
func granted(t *testing.T, name string) []string {
	t.Helper()
	role, ok := template(t, name).Resource("TaskRole")
	if !ok {
		t.Fatalf("%s has no task role", name)
	}
	all := map[string]bool{}
	for _, p := range role.Properties.Get("Policies").(infra.List) {
		for _, s := range p.(infra.Map).Get("PolicyDocument", "Statement").(infra.List) {
			for _, a := range s.(infra.Map).Get("Action").(infra.List) {
				all[a.(string)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func TestEveryCallOfAProcessIsGrantedAndEveryGrantIsCalled(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the whole module")
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: "../.."}, module+"/pkg/...", module+"/workers/...")
	if err != nil || packages.PrintErrors(loaded) > 0 {
		t.Fatalf("load the module: %v", err)
	}
	program, all := ssautil.Packages(loaded, ssa.InstantiateGenerics)
	program.Build()
	byPath := map[string]*ssa.Package{}
	for _, p := range all {
		if p != nil {
			byPath[p.Pkg.Path()] = p
		}
	}
	from := func(root *ssa.Function) *walk {
		w := &walk{program: program, seen: map[*ssa.Function]bool{}, calls: map[string]bool{}, invoked: map[string]bool{}}
		w.visit(root)
		return w
	}
	compare := func(name string, w *walk, byHTTP ...string) {
		t.Helper()
		need := append(w.needed(), byHTTP...)
		slices.Sort(need)
		got := granted(t, name)
		t.Logf("%s: %d functions, calls %v", name, len(w.seen), slices.Sorted(maps.Keys(w.calls)))
		if !slices.Equal(need, got) {
			t.Errorf("%s\nneeds      %v\nis granted %v\n(a stage whose handler makes no objects says ReadsOnly in the manifest)", name, need, got)
		}
	}
	for _, s := range workers.Stages {
		w := from(byPath[module+"/workers/"+s.Name].Func("main"))
		besides := []string{"ecs:UpdateTaskProtection"} // by the agent, whose endpoint package protect calls
		if reads := "s3:GetObject"; !slices.Contains(w.needed(), reads) {
			besides = append(besides, reads) // every stage may: a new one opens no object yet
		}
		compare("stage-"+s.Name, w, besides...)
	}
	remote := byPath[module+"/pkg/fleet"].Type("Remote").Object().Type()
	run := program.LookupMethod(remote, byPath[module+"/pkg/fleet"].Pkg, "Run")
	compare("server", from(run))
}
