package localsqs

import (
	"encoding/base64"
	"slices"
	"time"
)

type startMoveInput struct {
	SourceArn                    string
	DestinationArn               string
	MaxNumberOfMessagesPerSecond *int
}

type taskHandle struct{ TaskHandle string }

func startMove(s *Server, _ *call, in *startMoveInput, now int64) (any, error) {
	source, err := s.checkMove(in)
	if err != nil {
		return nil, err
	}
	source.advance(now)
	t := &moveTask{
		Handle:      base64.StdEncoding.EncodeToString([]byte(newUUID().String() + " " + source.arn)),
		Destination: in.DestinationArn, Started: now, ToMove: source.counts[stateReady], Status: taskRunning,
	}
	if in.MaxNumberOfMessagesPerSecond != nil {
		t.Rate = *in.MaxNumberOfMessagesPerSecond
	}
	source.keepTask(t)
	s.journal.taskChanged(source, t)
	source.launch(t)
	return taskHandle{t.Handle}, nil
}

func (s *Server) checkMove(in *startMoveInput) (*queue, error) {
	if in.SourceArn == "" {
		return nil, missingParameter("SourceArn")
	}
	source := s.byARN(in.SourceArn)
	if source == nil {
		return nil, errNoResource("SourceArn")
	}
	if len(s.names(source.isDLQOf)) == 0 {
		return nil, invalidParameter("Source queue must be configured as a Dead Letter Queue.")
	}
	if in.DestinationArn != "" {
		dest := s.byARN(in.DestinationArn)
		switch {
		case dest == nil:
			return nil, errNoResource("DestinationArn")
		case dest == source:
			return nil, invalidParameter("Source queue arn and destination queue arn cannot be the same.")
		case dest.fifo != source.fifo:
			return nil, invalidParameter("Source and destination queues must be of the same type.")
		}
	}
	if rate := in.MaxNumberOfMessagesPerSecond; rate != nil && (*rate < 1 || *rate > maxMoveRate) {
		return nil, invalidValue("MaxNumberOfMessagesPerSecond", *rate, "Must be between 1 and 500, if provided.")
	}
	if source.runningTask() != nil {
		return nil, invalidParameter("There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
	}
	return source, nil
}

type movedOutput struct{ ApproximateNumberOfMessagesMoved int }

func cancelMove(s *Server, _ *call, in *taskHandle, _ int64) (any, error) {
	if in.TaskHandle == "" {
		return nil, missingParameter("TaskHandle")
	}
	for _, q := range s.queues {
		for _, t := range q.tasks {
			if t.Handle != in.TaskHandle {
				continue
			}
			if t.Status != taskRunning {
				return nil, errUnsupported("Only active tasks can be cancelled.")
			}
			t.Status = taskCancelled
			t.timer.Stop()
			s.journal.taskChanged(q, t)
			return movedOutput{t.Moved}, nil
		}
	}
	return nil, errNoResource("TaskHandle")
}

type listMovesInput struct {
	SourceArn  string
	MaxResults *int
}

type moveResult struct {
	TaskHandle                        string `json:",omitempty"`
	Status                            string
	SourceArn                         string
	DestinationArn                    string `json:",omitempty"`
	MaxNumberOfMessagesPerSecond      int    `json:",omitempty"`
	ApproximateNumberOfMessagesMoved  int
	ApproximateNumberOfMessagesToMove int
	FailureReason                     string `json:",omitempty"`
	StartedTimestamp                  int64
}

func listMoves(s *Server, _ *call, in *listMovesInput, _ int64) (any, error) {
	if in.SourceArn == "" {
		return nil, missingParameter("SourceArn")
	}
	source := s.byARN(in.SourceArn)
	if source == nil {
		return nil, errNoResource("SourceArn")
	}
	limit := 1
	if in.MaxResults != nil {
		limit = *in.MaxResults
	}
	if limit < 1 || limit > keptMoveTasks {
		return nil, invalidValue("MaxResults", limit, "Must be between 1 and 10, if provided.")
	}
	results := []moveResult{}
	for _, t := range slices.Backward(source.tasks) {
		if len(results) < limit {
			results = append(results, t.result(source.arn))
		}
	}
	return map[string]any{"Results": results}, nil
}

// result shows the handle of a running task only: it is good for nothing but cancelling.
func (t *moveTask) result(source string) moveResult {
	r := moveResult{
		Status: t.Status, SourceArn: source, DestinationArn: t.Destination, MaxNumberOfMessagesPerSecond: t.Rate,
		ApproximateNumberOfMessagesMoved: t.Moved, ApproximateNumberOfMessagesToMove: t.ToMove,
		FailureReason: t.Failure, StartedTimestamp: t.Started / int64(time.Millisecond),
	}
	if t.Status == taskRunning {
		r.TaskHandle = t.Handle
	}
	return r
}
