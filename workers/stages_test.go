package workers_test

import (
	"testing"

	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

func TestTheManifestHoldsAtBothScales(t *testing.T) {
	for name, p := range map[string]stage.Pipeline{"production": workers.Stages, "local": workers.Stages.Scaled(stage.LocalScale)} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
