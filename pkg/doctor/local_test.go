package doctor_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/admin"
	"github.com/stagefleet/stagefleet/pkg/doctor"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/pkg/stage"
	"github.com/stagefleet/stagefleet/workers"
)

// machine is a local fleet that is well, its queues on an embedded server over the wire.
func machine(t *testing.T) (doctor.Machine, *sqs.Client) {
	t.Helper()
	server := localsqs.New(localsqs.Options{})
	web := httptest.NewServer(server)
	t.Cleanup(func() { web.Close(); server.Close() })
	client := sqs.NewFromConfig(config(web.URL))
	pipeline := workers.Stages.Scaled(stage.LocalScale)
	if err := admin.CreateQueues(t.Context(), client, pipeline, doctor.LocalEnv); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	for _, folder := range []string{"objects", "queues", "logs", "tmp"} {
		if err := os.MkdirAll(filepath.Join(state, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return doctor.Machine{
		Pipeline: pipeline, State: state, Tools: []doctor.Tool{{Name: "true", Version: []string{"--version"}}}, Queues: client,
		Stages: func(context.Context) ([]doctor.Running, time.Time, error) {
			return []doctor.Running{{Stage: "ingest", Workers: 1}, {Stage: "compile", Workers: 2}}, time.Now(), nil
		},
		Free:   func(string) (int64, error) { return 1 << 40, nil },
		Schema: func(context.Context) error { return nil }, Dead: func(context.Context) (int, error) { return 0, nil },
	}, client
}

func TestALocalFleetThatIsWellGivesNoFinding(t *testing.T) {
	m, _ := machine(t)
	r, err := doctor.LookLocal(t.Context(), m)
	if err != nil || r.Err() != nil {
		t.Errorf("%v, %v: %+v", err, r.Err(), r)
	}
}

func TestWhatIsWrongOnAMachineIsFoundAlone(t *testing.T) {
	for want, spoil := range map[string]func(*testing.T, *doctor.Machine, *sqs.Client){
		"program no-such-program ": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Tools = append(m.Tools, doctor.Tool{Name: "no-such-program"})
		},
		"program false ": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Tools = append(m.Tools, doctor.Tool{Name: "false", Version: []string{"-v"}})
		},
		"state directory mode": func(t *testing.T, m *doctor.Machine, _ *sqs.Client) {
			if err := os.Chmod(m.State, 0o777); err != nil {
				t.Fatal(err)
			}
		},
		"folder /queues ": func(t *testing.T, m *doctor.Machine, _ *sqs.Client) {
			if err := os.Remove(filepath.Join(m.State, "queues")); err != nil {
				t.Fatal(err)
			}
		},
		"disk free space": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Free = func(string) (int64, error) { return 1 << 30, nil }
		},
		"stagefleet-local-compile VisibilityTimeout": func(t *testing.T, _ *doctor.Machine, c *sqs.Client) {
			url, err := c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("stagefleet-local-compile")})
			if err == nil {
				_, err = c.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: url.QueueUrl, Attributes: map[string]string{"VisibilityTimeout": "1"}})
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"stage ingest workers": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Stages = func(context.Context) ([]doctor.Running, time.Time, error) {
				return []doctor.Running{{Stage: "ingest"}}, time.Now(), nil
			}
		},
		"stage ingest oldest work": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Stages = func(context.Context) ([]doctor.Running, time.Time, error) {
				return []doctor.Running{{Stage: "ingest", Workers: 1, Oldest: time.Hour}}, time.Now(), nil
			}
		},
		"clock of this machine time": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Stages = func(context.Context) ([]doctor.Running, time.Time, error) { return nil, time.Now().Add(time.Hour), nil }
		},
		"record schema": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Schema = func(context.Context) error { return doctor.ErrSchemaBehind }
		},
		"record dead steps": func(_ *testing.T, m *doctor.Machine, _ *sqs.Client) {
			m.Dead = func(context.Context) (int, error) { return 2, nil }
		},
	} {
		t.Run(want, func(t *testing.T) {
			m, client := machine(t)
			spoil(t, &m, client)
			r, err := doctor.LookLocal(t.Context(), m)
			if err != nil || len(r.Findings) != 1 || len(r.Unseen) != 0 {
				t.Fatalf("%v: %+v", err, r)
			}
			f := r.Findings[0]
			if got := f.Resource + " " + f.Field; strings.ReplaceAll(strings.Replace(got, "folder "+m.State, "folder ", 1), " "+m.State, "") != strings.Replace(want, "disk ", "disk of ", 1) || f.Why == "" || f.Mend == "" {
				t.Errorf("found %+v, want %q", f, want)
			}
		})
	}
}

func TestWithoutALocalFleetNothingIsFoundAndAllIsSaid(t *testing.T) {
	m := doctor.Machine{Pipeline: workers.Stages.Scaled(stage.LocalScale), State: filepath.Join(t.TempDir(), "none"),
		Stages: func(context.Context) ([]doctor.Running, time.Time, error) {
			return nil, time.Time{}, doctor.ErrNoAnswer
		}}
	r, err := doctor.LookLocal(t.Context(), m)
	if err != nil || len(r.Findings) != 0 || len(r.Unseen) != 4 || !errors.Is(r.Err(), doctor.ErrUnseen) {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestAFleetThatAnswersWithAnErrorIsNotSaidToBeDown, and one that was killed is not sought in AWS.
func TestAFleetThatAnswersWithAnErrorIsNotSaidToBeDown(t *testing.T) {
	m, _ := machine(t)
	m.Stages = func(context.Context) ([]doctor.Running, time.Time, error) {
		return nil, time.Time{}, errors.New("it cannot")
	}
	m.Queues = sqs.NewFromConfig(config("http://127.0.0.1:1"))
	r, err := doctor.LookLocal(t.Context(), m)
	if err != nil || len(r.Findings) != 0 || len(r.Unseen) != 2 {
		t.Fatalf("%v: %+v", err, r)
	}
	if why := r.Unseen[0].Why; strings.Contains(why, "AWS") || !strings.Contains(why, "no fleet runs with this state directory") {
		t.Errorf("of queues that were there: %s", why)
	}
	if why := r.Unseen[1].Why; strings.Contains(why, "does not answer") || !strings.Contains(why, "it cannot") || !strings.Contains(why, "logs/fleet.log") {
		t.Errorf("of a fleet that answers: %s", why)
	}
}
