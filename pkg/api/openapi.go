package api

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// doc is an OpenAPI 3.1 document, or a part of one. Maps are encoded in the order of their keys, so the text is always the same.
type doc = map[string]any

// describe makes the document of a table of routes. The schemas are those of the Go types that handlers encode and decode.
func describe(routes []route) doc {
	schemas := &schemas{defs: doc{}, types: map[string]reflect.Type{}}
	paths := doc{}
	for _, r := range routes {
		path := pathWildcard.ReplaceAllString(r.path, "{$1}")
		if paths[path] == nil {
			paths[path] = doc{}
		}
		paths[path].(doc)[strings.ToLower(r.method)] = schemas.operation(r)
	}
	return doc{
		"openapi": "3.1.0",
		"info": doc{"title": "Stagefleet", "version": "1", "description": "Hand in recordings and learn what became of them. " +
			"Refusals are problem details (RFC 9457): code is for programs, detail is one sentence for people. " +
			"Readers should ignore fields that they do not know."},
		"paths": paths,
		"components": doc{
			"schemas":         schemas.defs,
			"securitySchemes": doc{"key": doc{"type": "http", "scheme": "bearer", "description": "An API key, from `fleet keys create`."}},
		},
	}
}

// openAPI serves the document.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, s.document)
}

var (
	pathWildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)
	notWord      = regexp.MustCompile(`\W+`)
)

func (s *schemas) operation(r route) doc {
	op := doc{
		"operationId": strings.ToLower(r.method) + notWord.ReplaceAllString(r.path, "_"),
		"summary":     r.summary, "parameters": s.parameters(r), "responses": s.responses(r),
	}
	if r.scope != "" {
		op["x-scope"] = r.scope
		op["security"] = []doc{{"key": []string{}}}
		op["description"] = fmt.Sprintf("Needs a key with scope %s.", r.scope)
	}
	if len(r.takes) > 0 {
		content := doc{}
		for _, b := range r.takes {
			content[b.media] = s.media(b)
		}
		op["requestBody"] = doc{"required": true, "content": content}
	}
	return op
}

func (s *schemas) parameters(r route) []doc {
	all := []doc{}
	for _, name := range pathWildcard.FindAllStringSubmatch(r.path, -1) {
		all = append(all, doc{"in": "path", "name": name[1], "required": true, "schema": doc{"type": "string"}})
	}
	for _, p := range r.params {
		like := p.like
		if like == nil {
			like = ""
		}
		all = append(all, doc{"in": p.in, "name": p.name, "description": p.about, "required": p.required, "schema": s.of(like)})
	}
	return all
}

func (s *schemas) responses(r route) doc {
	all := doc{"default": s.response(http.StatusInternalServerError, jsonProblem)}
	for status, b := range r.gives {
		all[strconv.Itoa(status)] = s.response(status, b)
	}
	for _, status := range r.refusals() {
		all[strconv.Itoa(status)] = s.response(status, jsonProblem)
	}
	return all
}

// refusals are the statuses of problem documents that an operation may answer with.
func (r route) refusals() []int {
	if r.scope == "" {
		return r.problems
	}
	return append(slices.Clone(r.problems), http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
}

var jsonProblem = body{media: "application/problem+json", like: Problem{}}

func (s *schemas) response(status int, b body) doc {
	described := doc{"description": http.StatusText(status)}
	if b.media != "" {
		described["content"] = doc{b.media: s.media(b)}
	}
	return described
}

func (s *schemas) media(b body) doc {
	if b.like == nil {
		return doc{}
	}
	return doc{"schema": s.of(b.like)}
}

// schemas collects the types that a document names.
type schemas struct {
	defs  doc
	types map[string]reflect.Type
}

// of returns the schema of a value's type; named structs go among the components.
func (s *schemas) of(like any) any {
	reflector := &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, Mapper: enumerated, Namer: s.name}
	schema := reflector.ReflectFromType(reflect.TypeOf(like))
	for name, def := range schema.Definitions {
		s.defs[name] = def
	}
	schema.Version, schema.Definitions = "", nil
	s.point(schema)
	for _, def := range s.defs {
		s.point(def.(*jsonschema.Schema))
	}
	return schema
}

// name refuses two types of one name: one of them would be described as the other. It happens at the first start.
func (s *schemas) name(t reflect.Type) string {
	name := t.Name()
	if name == "" {
		return ""
	}
	if known, taken := s.types[name]; taken && known != t {
		panic(fmt.Sprintf("api: %s and %s would both be called %s in the OpenAPI document", known, t, name))
	}
	s.types[name] = t
	return strings.ToUpper(name[:1]) + name[1:]
}

// point makes references lead to the document's components.
func (s *schemas) point(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	schema.Ref = strings.Replace(schema.Ref, "#/$defs/", "#/components/schemas/", 1)
	s.point(schema.Items)
	s.point(schema.AdditionalProperties)
	for p := schema.Properties.Oldest(); p != nil; p = p.Next() {
		s.point(p.Value)
	}
}

// enumerated describes the types of which only certain words are values.
func enumerated(t reflect.Type) *jsonschema.Schema {
	var words []any
	switch t {
	case reflect.TypeFor[job.State]():
		for _, state := range job.States() {
			words = append(words, state)
		}
	case reflect.TypeFor[job.ImportState]():
		for _, state := range job.ImportStates() {
			words = append(words, state)
		}
	case reflect.TypeFor[job.Scope]():
		for _, scope := range job.AllScopes() {
			words = append(words, scope)
		}
	default:
		return nil
	}
	return &jsonschema.Schema{Type: "string", Enum: words}
}
