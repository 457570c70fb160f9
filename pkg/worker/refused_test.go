package worker_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

// unreadable is a queue that may be found and not read.
type unreadable struct{ *sqs.Client }

func (unreadable) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDeniedException"}
}

func TestAWorkerThatMayNotReadItsQueueEndsByItself(t *testing.T) {
	s := newScene(t)
	settings, err := s.stages.Settings("test", "cut")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := blob.Open(t.Context(), "file://"+filepath.Join(s.folder, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	program := worker.Define("cut", func(worker.Deps) (worker.Handler[string, string], error) {
		return worker.Func[string, string](obey), nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = program.Serve(ctx, worker.Resources{Settings: settings, ID: "refused", Record: s.record, Objects: objects, Queue: unreadable{s.queue}})
	if err == nil || ctx.Err() != nil {
		t.Errorf("it ended with %v, and its context with %v, want an error and no stop from outside", err, ctx.Err())
	}
}
