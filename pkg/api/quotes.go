package api

import (
	"errors"
	"net/http"

	"github.com/stagefleet/stagefleet/pkg/job"
)

// QuoteOrder asks what a submission would cost and when it would be done.
type QuoteOrder struct {
	Size int64 `json:"size,omitempty"` // bytes of the recording, if known
}

// Quote is an answer for this moment; nothing is kept for who asked.
type Quote struct {
	Price     int64        `json:"price"`            // units, charged at admission, given back if the job fails or is refused
	Balance   int64        `json:"balance"`          // of the caller's account
	Accepted  bool         `json:"accepted"`         // a submission would be admitted now
	Reason    string       `json:"reason,omitempty"` // why not: in_flight_limit, daily_cap, balance or too_large
	InFlight  int64        `json:"in_flight"`
	MaxUpload int64        `json:"max_upload"` // bytes
	Forecast  job.Forecast `json:"forecast"`
}

func (s *Server) quoteRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/quotes", scope: job.ScopeSubmit, summary: "What a submission would cost on the caller's account, and when it would be done",
			takes: []body{jsonOf(QuoteOrder{})}, gives: map[int]body{200: jsonOf(Quote{})}, problems: []int{400, 413, 415}, handle: s.quote},
	}
}

func (s *Server) quote(w http.ResponseWriter, r *http.Request) error {
	order, err := readJSON[QuoteOrder](r)
	if err != nil {
		return err
	}
	account, err := s.cfg.Record.Account(r.Context(), callerOf(r.Context()).tenant)
	if errors.Is(err, job.ErrNotFound) { // it is opened by the first submission, without bounds
		account, err = job.Account{Unlimited: true}, nil
	}
	if err != nil {
		return err
	}
	forecast, err := s.cfg.Record.Forecast(r.Context(), s.cfg.Stages)
	if err != nil {
		return err
	}
	quote := Quote{Price: s.cfg.Price, Balance: account.Balance, InFlight: account.InFlight, MaxUpload: s.cfg.MaxUpload, Forecast: forecast}
	quote.Reason = account.Declines(s.cfg.Price)
	if order.Size > s.cfg.MaxUpload {
		quote.Reason = "too_large"
	}
	quote.Accepted = quote.Reason == ""
	return writeJSON(w, http.StatusOK, quote)
}
