package localsqs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Server is a prometheus.Collector. Its labels are queue names, actions and error codes: never what a message holds.
var (
	_ prometheus.Collector = (*Server)(nil)

	messagesDesc = prometheus.NewDesc("localsqs_messages", "Messages in the queue, by state.", []string{"queue", "state"}, nil)
	ageDesc      = prometheus.NewDesc("localsqs_oldest_message_age_seconds", "Age of the oldest message, without those that a standard queue has put to its back.", []string{"queue"}, nil)
	pollsDesc    = prometheus.NewDesc("localsqs_waiting_polls", "Long polls that wait now.", []string{"queue"}, nil)
	flowDesc     = prometheus.NewDesc("localsqs_queue_messages_total", "Messages by what happened to them since the start.", []string{"queue", "event"}, nil)
	requestsDesc = prometheus.NewDesc("localsqs_requests_total", "Requests by action and error code, OK for none.", []string{"action", "code"}, nil)
)

// flow counts what happened to a queue's messages.
type flow struct{ sent, duplicate, received, deleted, buried, expired int64 }

func (f *flow) byEvent() map[string]int64 {
	return map[string]int64{
		"sent": f.sent, "duplicate": f.duplicate, "received": f.received, "deleted": f.deleted, "dead_lettered": f.buried, "expired": f.expired,
	}
}

// requestKey labels a request. Unknown actions share one label, so that callers cannot invent series.
type requestKey struct{ action, code string }

func (s *Server) countRequest(action string, err error) {
	key := requestKey{action, "OK"}
	if _, known := operations()[action]; !known {
		key.action = "unknown"
	}
	if err != nil {
		key.code = asAPIError(err).code
	}
	s.mu.Lock()
	s.requests[key]++
	s.mu.Unlock()
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{messagesDesc, ageDesc, pollsDesc, flowDesc, requestsDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Server) Collect(metrics chan<- prometheus.Metric) {
	for _, m := range s.gather() { // the lock is not held while the channel blocks
		metrics <- m
	}
}

func (s *Server) gather() (all []prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
	}
	for _, q := range s.queues {
		q.advance(now)
		for state, name := range map[state]string{stateReady: "visible", stateInFlight: "in_flight", stateDelayed: "delayed"} {
			gauge(messagesDesc, float64(q.counts[state]), q.name, name)
		}
		gauge(ageDesc, q.oldest(now).Seconds(), q.name)
		gauge(pollsDesc, float64(len(q.waiters.all)), q.name)
		for event, n := range q.flow.byEvent() {
			all = append(all, prometheus.MustNewConstMetric(flowDesc, prometheus.CounterValue, float64(n), q.name, event))
		}
	}
	for key, n := range s.requests {
		all = append(all, prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), key.action, key.code))
	}
	return all
}

func (q *queue) oldest(now int64) time.Duration {
	first := now
	for _, m := range q.messages {
		if q.fifo || m.here < backOfQueue {
			first = min(first, m.sent)
		}
	}
	return time.Duration(now - first)
}
