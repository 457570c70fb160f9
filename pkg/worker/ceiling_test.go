package worker_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func TestAWorkerRefusesToStartAboveTheCeilingOfItsStage(t *testing.T) {
	env := environ(t)
	for i, v := range env {
		if text, ok := strings.CutPrefix(v, stage.EnvStage+"="); ok {
			text = strings.Replace(text, `"maxTasks":1,"ceiling":1`, `"maxTasks":4,"ceiling":3`, 1)
			env[i] = stage.EnvStage + "=" + text
			env = append(env, fmt.Sprintf("%s=%x", stage.EnvStageHash, sha256.Sum256([]byte(text))))
		}
	}
	_, err := worker.ParseConfig(env, "cut")
	if err == nil || !strings.Contains(err.Error(), "Profile.Ceiling is 3, must be at least MaxTasks x Slots, 4") {
		t.Errorf("error %v", err)
	}
}
