package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// Ledger is what the API needs of the record's accounts.
type Ledger interface {
	Account(ctx context.Context, tenant string) (job.Account, error)
	Accounts(ctx context.Context) ([]job.Account, error)
	CreateAccount(ctx context.Context, tenant string, l job.Limits, who string) (bool, error)
	ChangeLimits(ctx context.Context, tenant string, l job.Limits, who string) error
	Grant(ctx context.Context, tenant, id string, amount int64, who string) (bool, error)
	Entries(ctx context.Context, tenant, cursor string, limit int) ([]job.Entry, string, error)
}

// AccountOrder asks for an account with a balance of zero.
type AccountOrder struct {
	Tenant string `json:"tenant"`
	job.Limits
}

// GrantOrder adds to a balance, or takes from it when the amount is negative. The same id grants once.
type GrantOrder struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// AccountList is every account.
type AccountList struct {
	Accounts []job.Account `json:"accounts"`
}

// EntryPage is one list of an account's entries, newest first. An empty Cursor means that it is the last.
type EntryPage struct {
	Entries []job.Entry `json:"entries"`
	Cursor  string      `json:"cursor,omitempty"`
}

var paging = []param{
	{in: "query", name: "limit", about: "At most so many; 50 unless given.", like: 0},
	{in: "query", name: "cursor", about: "What the page before gave."},
}

func (s *Server) accountRoutes() []route {
	account, entries := jsonOf(job.Account{}), jsonOf(EntryPage{})
	return []route{
		{method: http.MethodGet, path: "/v1/account", scope: job.ScopeView, summary: "The caller's own account",
			gives: map[int]body{200: account}, problems: []int{404}, handle: s.own(s.account)},
		{method: http.MethodGet, path: "/v1/account/entries", scope: job.ScopeView, summary: "The entries of the caller's own account, newest first",
			params: paging, gives: map[int]body{200: entries}, problems: []int{400}, handle: s.own(s.entries)},
		{method: http.MethodGet, path: "/v1/accounts", scope: job.ScopeOperate, summary: "List accounts by tenant",
			gives: map[int]body{200: jsonOf(AccountList{})}, handle: s.accounts},
		{method: http.MethodPost, path: "/v1/accounts", scope: job.ScopeOperate, summary: "Open an account with a balance of zero",
			takes: []body{jsonOf(AccountOrder{})}, gives: map[int]body{201: account}, problems: []int{400, 409, 413, 415, 422}, handle: s.createAccount},
		{method: http.MethodGet, path: "/v1/accounts/{tenant}", scope: job.ScopeOperate, summary: "One account",
			gives: map[int]body{200: account}, problems: []int{404}, handle: s.account},
		{method: http.MethodPatch, path: "/v1/accounts/{tenant}", scope: job.ScopeOperate, summary: "Change what an account may do; what is not said stays",
			takes: []body{jsonOf(job.Limits{})}, gives: map[int]body{200: account}, problems: []int{400, 404, 413, 415, 422}, handle: s.limit},
		{method: http.MethodGet, path: "/v1/accounts/{tenant}/entries", scope: job.ScopeOperate, summary: "The entries of an account, newest first",
			params: paging, gives: map[int]body{200: entries}, problems: []int{400, 404}, handle: s.entriesOf},
		{method: http.MethodPost, path: "/v1/accounts/{tenant}/grants", scope: job.ScopeOperate, summary: "Grant to an account; the same id grants once",
			takes: []body{jsonOf(GrantOrder{})}, gives: map[int]body{200: account}, problems: []int{400, 404, 413, 415, 422}, handle: s.grant},
	}
}

// own answers for the caller's tenant what another endpoint answers for any.
func (s *Server) own(handle endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		r.SetPathValue("tenant", callerOf(r.Context()).tenant)
		return handle(w, r)
	}
}

func (s *Server) account(w http.ResponseWriter, r *http.Request) error {
	account, err := s.cfg.Record.Account(r.Context(), r.PathValue("tenant"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, account)
}

func (s *Server) accounts(w http.ResponseWriter, r *http.Request) error {
	all, err := s.cfg.Record.Accounts(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, AccountList{all})
}

// entriesOf tells an account without entries from none.
func (s *Server) entriesOf(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.cfg.Record.Account(r.Context(), r.PathValue("tenant")); err != nil {
		return err
	}
	return s.entries(w, r)
}

func (s *Server) entries(w http.ResponseWriter, r *http.Request) error {
	limit, cursor, err := pageOf(r)
	if err != nil {
		return err
	}
	entries, next, err := s.cfg.Record.Entries(r.Context(), r.PathValue("tenant"), cursor, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, EntryPage{entries, sealCursor(next)})
}

func (s *Server) createAccount(w http.ResponseWriter, r *http.Request) error {
	order, err := readJSON[AccountOrder](r)
	if err != nil {
		return err
	}
	fresh, err := s.cfg.Record.CreateAccount(r.Context(), order.Tenant, order.Limits, callerOf(r.Context()).who())
	if err != nil {
		return err
	}
	if !fresh {
		return problem(http.StatusConflict, "account_exists", "The tenant has an account already; change its limits instead.")
	}
	account, err := s.cfg.Record.Account(r.Context(), order.Tenant)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/accounts/"+order.Tenant)
	return writeJSON(w, http.StatusCreated, account)
}

func (s *Server) limit(w http.ResponseWriter, r *http.Request) error {
	limits, err := readJSON[job.Limits](r)
	if err != nil {
		return err
	}
	if err := s.cfg.Record.ChangeLimits(r.Context(), r.PathValue("tenant"), limits, callerOf(r.Context()).who()); err != nil {
		return err
	}
	return s.account(w, r)
}

func (s *Server) grant(w http.ResponseWriter, r *http.Request) error {
	order, err := readJSON[GrantOrder](r)
	if err != nil {
		return err
	}
	tenant := r.PathValue("tenant")
	if _, err := s.cfg.Record.Account(r.Context(), tenant); err != nil {
		return err
	}
	if _, err := s.cfg.Record.Grant(r.Context(), tenant, order.ID, order.Amount, callerOf(r.Context()).who()); err != nil {
		return err
	}
	return s.account(w, r)
}

// pageOf reads which part of a list is asked for.
func pageOf(r *http.Request) (limit int, cursor string, err error) {
	query := r.URL.Query()
	limit = defaultPage
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > MaxPage {
			return 0, "", problem(http.StatusBadRequest, "limit", "The limit must be a whole number from 1 to %d.", MaxPage)
		}
	}
	cursor, err = openCursor(query.Get("cursor"))
	return limit, cursor, err
}
