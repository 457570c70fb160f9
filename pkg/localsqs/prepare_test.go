package localsqs_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

func TestAServerThatCannotBePreparedNeverListens(t *testing.T) {
	ill := errors.New("ill")
	err := localsqs.Serve(t.Context(), localsqs.ServeConfig{
		Addr:    "127.0.0.1:0",
		Prepare: func(context.Context, *localsqs.Server) error { return ill },
		Ready:   func(net.Addr) { t.Error("listens") },
	})
	if !errors.Is(err, ill) {
		t.Errorf("error %v", err)
	}
}
