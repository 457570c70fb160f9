package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// observed is what the servers of all tests have answered, held against their document: an answer that is not declared
// fails its test, and a declared one that no test has seen fails the run.
var observed struct {
	mu       sync.Mutex
	document map[string]any
	compiler *jsonschema.Compiler
	seen     map[string]bool // "get /v1/jobs 200"
}

// undemonstrated reports that every declared answer was given to some test. A run of some tests only tells nothing.
func undemonstrated() (complete bool) {
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.bench", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	complete = true
	for _, key := range declared() {
		if !observed.seen[key] {
			fmt.Fprintln(os.Stderr, "declared, but given to no test:", key)
			complete = false
		}
	}
	return complete
}

func declared() []string {
	var all []string
	for _, op := range operations() {
		for status := range op.responses {
			if status != "default" {
				all = append(all, op.name()+" "+status)
			}
		}
	}
	slices.Sort(all)
	return all
}

// operation is one of the document.
type operation struct {
	method, path, scope string
	media               []string // that it takes
	query               []string // names of parameters in its address
	responses           map[string]any
}

func (o operation) name() string { return o.method + " " + o.path }

// operations of the document that the servers serve; there is none before the first test has made a server.
func operations() []operation {
	var all []operation
	paths, _ := observed.document["paths"].(map[string]any)
	for path, methods := range paths {
		for method, described := range methods.(map[string]any) {
			op := described.(map[string]any)
			o := operation{method: method, path: path, responses: op["responses"].(map[string]any)}
			o.scope, _ = op["x-scope"].(string)
			if takes, ok := op["requestBody"].(map[string]any); ok {
				o.media = slices.Sorted(maps.Keys(takes["content"].(map[string]any)))
			}
			for _, p := range op["parameters"].([]any) {
				if p := p.(map[string]any); p["in"] == "query" {
					o.query = append(o.query, p["name"].(string))
				}
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// learn reads the document that a server serves.
func learn(t testing.TB, server http.Handler) {
	t.Helper()
	observed.mu.Lock()
	defer observed.mu.Unlock()
	if observed.document != nil {
		return
	}
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/openapi.json", nil))
	text := answer.Body.Bytes()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = json.Unmarshal(text, &observed.document)
	}
	observed.compiler = jsonschema.NewCompiler()
	if err == nil {
		err = observed.compiler.AddResource("openapi.json", document)
	}
	if err != nil {
		t.Fatalf("the document: %v", err)
	}
	observed.seen = map[string]bool{"get /v1/openapi.json 200": true}
}

// from is the header with the address that a request is to come from.
const from = "Test-From"

// conforming is a server whose answers are held against its document.
func conforming(t testing.TB, server http.Handler) http.Handler {
	learn(t, server)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &kept{ResponseWriter: w, status: http.StatusOK}
		if address := r.Header.Get(from); address != "" {
			r.RemoteAddr = address
		}
		server.ServeHTTP(kept, r)
		if r.Pattern == "/" || r.Context().Err() != nil {
			return
		}
		if err := conforms(r, kept); err != nil {
			t.Errorf("%s %s = %d: %v", r.Method, r.URL.Path, kept.status, err)
		}
	})
}

// kept is an answer of which a copy is kept.
type kept struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (k *kept) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

const keptBytes = 1 << 20

func (k *kept) Write(p []byte) (int, error) {
	if k.body.Len()+len(p) <= keptBytes {
		k.body.Write(p)
	}
	return k.ResponseWriter.Write(p)
}

func conforms(r *http.Request, answer *kept) error {
	method := strings.ToLower(r.Method)
	if method == "head" {
		method = "get"
	}
	path := strings.ReplaceAll(r.Pattern, "...}", "}")
	observed.mu.Lock()
	defer observed.mu.Unlock()
	i := slices.IndexFunc(operations(), func(o operation) bool { return o.method == method && o.path == path })
	if i < 0 {
		if answer.status == http.StatusMethodNotAllowed {
			return nil
		}
		return fmt.Errorf("%s %s is not in the document", method, path)
	}
	status := strconv.Itoa(answer.status)
	response, ok := operations()[i].responses[status].(map[string]any)
	if !ok && answer.status < 500 {
		return fmt.Errorf("the status is not declared")
	}
	if !ok {
		status = "default"
		response = operations()[i].responses[status].(map[string]any)
	}
	observed.seen[method+" "+path+" "+status] = true
	content, _ := response["content"].(map[string]any)
	media, _, _ := strings.Cut(answer.Header().Get("Content-Type"), ";")
	if len(content) == 0 || r.Method == http.MethodHead || content["*/*"] != nil {
		return nil
	}
	described, ok := content[media].(map[string]any)
	if !ok {
		return fmt.Errorf("media type %q is not declared", media)
	}
	if described["schema"] == nil {
		return nil
	}
	pointer := strings.NewReplacer("~", "~0", "/", "~1")
	schema, err := observed.compiler.Compile(fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%s/content/%s/schema", pointer.Replace(path), method, status, pointer.Replace(media)))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(&answer.body)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
