package api

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// endpoint answers one operation. An error becomes a problem document; callerOf tells who asks.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// route is one operation of the API. The mux, the check of scopes and the OpenAPI document are all made from the table of
// routes, so that they cannot disagree; tests hold the handlers to it, status by status.
type route struct {
	method, path string    // the path as http.ServeMux takes it
	scope        job.Scope // that the caller's key must have; empty: no key is asked for
	summary      string    // one line
	params       []param   // beside those of the path
	takes        []body    // one of them is sent; none: no body
	gives        map[int]body
	problems     []int // statuses of problem documents, beside those of every route with a scope: 401, 403, 429
	handle       endpoint
}

// param is what a request says in its address or header.
type param struct {
	in, name, about string // in: query or header
	required        bool
	like            any // a value of its type; nil: text
}

// body is what is sent or answered: a media type and a value of the type whose JSON it is. The zero body is none.
type body struct {
	media string // empty, with a value: application/json
	like  any
}

// jsonOf is a JSON body like the value.
func jsonOf(like any) body { return body{media: "application/json", like: like} }

// routes is the whole API.
func (s *Server) routes() []route {
	return slices.Concat(s.jobRoutes(), s.uploadRoutes(), s.resultRoutes(), s.quoteRoutes(), s.importRoutes(), s.accountRoutes(), s.keyRoutes(),
		s.webhookRoutes(), s.providerRoutes(), s.operatorRoutes(), s.fleetRoutes())
}

// fleetRoutes are about the fleet rather than about somebody's work.
func (s *Server) fleetRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "/v1/stages", scope: job.ScopeOperate, summary: "The state of every stage, in the order of the work",
			gives: map[int]body{200: jsonOf([]stageState{})}, handle: s.stages},
		{method: http.MethodGet, path: "/metrics", scope: job.ScopeOperate, summary: "Metrics for Prometheus",
			gives: map[int]body{200: {media: "text/plain"}}, handle: s.metrics},
		{method: http.MethodGet, path: "/healthz", summary: "Whether the server and its record work",
			gives: map[int]body{200: jsonOf(health{})}, problems: []int{503}, handle: s.health},
		{method: http.MethodGet, path: "/v1/openapi.json", summary: "This document",
			gives: map[int]body{200: {media: "application/json"}}, handle: s.openAPI},
	}
}

// mux serves a table. Every refusal is a problem document; patterns with methods would make the ServeMux answer in plain text.
func (s *Server) mux(routes []route) *http.ServeMux {
	paths := map[string]map[string]route{"/": {}}
	for _, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]route{}
		}
		paths[r.path][r.method] = r
	}
	mux := http.NewServeMux()
	for path, methods := range paths {
		mux.HandleFunc(path, s.dispatch(methods))
	}
	return mux
}

// dispatch chooses by method.
func (s *Server) dispatch(methods map[string]route) http.HandlerFunc {
	var allowed []string
	for method := range methods {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	return func(w http.ResponseWriter, r *http.Request) {
		route, ok := methods[r.Method]
		if !ok && r.Method == http.MethodHead {
			route, ok = methods[http.MethodGet]
		}
		switch {
		case len(methods) == 0:
			writeProblem(w, r, problem(http.StatusNotFound, "no_route", "There is nothing at this address."))
		case !ok:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeProblem(w, r, problem(http.StatusMethodNotAllowed, "method", "This address does not take %s.", r.Method))
		case !storable(r.URL.Path):
			writeProblem(w, r, problem(http.StatusNotFound, "not_found", "There is nothing at this address."))
		default:
			s.answer(w, r, route)
		}
	}
}

// understands refuses what the operation would not look at, so that a misspelt word is not taken for none.
func (r route) understands(request *http.Request) error {
	for name, values := range request.URL.Query() {
		if slices.ContainsFunc(values, func(v string) bool { return !storable(v) }) {
			return problem(http.StatusBadRequest, "text", "The parameters of the address must be UTF-8 without NUL characters.")
		}
		if !slices.ContainsFunc(r.params, func(p param) bool { return p.in == "query" && p.name == name }) {
			return problem(http.StatusBadRequest, "unknown_parameter", "The address has a parameter that this operation does not know.")
		}
	}
	if len(r.takes) == 0 {
		return nil
	}
	var known []string
	sent, _, _ := mime.ParseMediaType(request.Header.Get("Content-Type"))
	for _, b := range r.takes {
		if b.media == sent || b.media == "*/*" {
			return nil
		}
		known = append(known, b.media)
	}
	return problem(http.StatusUnsupportedMediaType, "media_type", "The body must be sent as %s.", strings.Join(known, " or "))
}
