package localecs

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// standing is a cluster whose tasks exist on paper only: the agent's answers need no processes.
func standing(t *testing.T, count int) (*Cluster, []*task) {
	t.Helper()
	c := &Cluster{services: map[string]*service{}, tasks: map[string]*task{}, life: t.Context()}
	s := &service{Service: Service{Name: "clip", Binary: "x", Count: count, StopTimeout: time.Second}, slots: map[int]*slot{}}
	c.services["clip"] = s
	var tasks []*task
	for ordinal := 1; ordinal <= count; ordinal++ {
		_, cancel := context.WithCancel(t.Context())
		place := &slot{name: "clip", retire: cancel}
		place.task = newTask(s, place)
		s.slots[ordinal] = place
		c.tasks[place.task.token] = place.task
		tasks = append(tasks, place.task)
	}
	return c, tasks
}

func ask(c *Cluster, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	c.handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func statePath(t *task) string { return "/api/" + t.token + "/task-protection/v1/state" }

func TestProtectionAnswersAsTheECSAgentDoes(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		status       int
		contains     string
	}{
		"off before it was ever set":     {http.MethodGet, "", 200, `"ProtectionEnabled":false`},
		"on":                             {http.MethodPut, `{"ProtectionEnabled":true,"ExpiresInMinutes":60}`, 200, `"ExpirationDate":"`},
		"keys in any case":               {http.MethodPut, `{"protectionenabled":true}`, 200, `"ProtectionEnabled":true`},
		"off":                            {http.MethodPut, `{"ProtectionEnabled":false}`, 200, `"ProtectionEnabled":false`},
		"the longest":                    {http.MethodPut, `{"ProtectionEnabled":true,"ExpiresInMinutes":2880}`, 200, `"ProtectionEnabled":true`},
		"too long":                       {http.MethodPut, `{"ProtectionEnabled":true,"ExpiresInMinutes":2881}`, 400, "InvalidParameterException"},
		"too short":                      {http.MethodPut, `{"ProtectionEnabled":true,"ExpiresInMinutes":0}`, 400, "InvalidParameterException"},
		"an unknown key":                 {http.MethodPut, `{"ProtectionEnabled":true,"Minutes":5}`, 400, "InvalidParameterException"},
		"a missing key":                  {http.MethodPut, `{"ExpiresInMinutes":5}`, 400, "InvalidParameterException"},
		"garbage":                        {http.MethodPut, `on please`, 400, "InvalidParameterException"},
		"another method is no operation": {http.MethodPost, `{"ProtectionEnabled":true}`, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, tasks := standing(t, 1)
			status, body := ask(cluster, c.method, statePath(tasks[0]), c.body)
			if status != c.status || !strings.Contains(body, c.contains) {
				t.Errorf("= %d %s, want %d with %s", status, body, c.status, c.contains)
			}
		})
	}
}

func TestAnUnknownTaskIsNotFound(t *testing.T) {
	c, _ := standing(t, 1)
	for _, request := range [][2]string{{http.MethodGet, "/api/x/task-protection/v1/state"}, {http.MethodPut, "/api/x/task-protection/v1/state"}, {http.MethodGet, "/v4/x/task"}} {
		if status, _ := ask(c, request[0], request[1], `{"ProtectionEnabled":true}`); status != http.StatusNotFound {
			t.Errorf("%v = %d, want 404", request, status)
		}
	}
}

func TestProtectionEndsByItselfAndTheScaleInGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tasks := standing(t, 1)
		ask(c, http.MethodPut, statePath(tasks[0]), `{"ProtectionEnabled":true,"ExpiresInMinutes":1}`)
		if err := c.Scale("clip", 0); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute - 1)
		if c.retired(tasks[0]) {
			t.Fatal("stopped one nanosecond before its protection ended")
		}
		settle(1)
		if !c.retired(tasks[0]) {
			t.Fatal("not stopped when its protection ended")
		}
	})
}

func TestARenewalCountsFromItsOwnMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tasks := standing(t, 1)
		for range 3 {
			ask(c, http.MethodPut, statePath(tasks[0]), `{"ProtectionEnabled":true,"ExpiresInMinutes":1}`)
			settle(45 * time.Second)
		}
		if _, body := ask(c, http.MethodGet, statePath(tasks[0]), ""); !strings.Contains(body, `"ProtectionEnabled":true`) {
			t.Errorf("after renewals: %s", body)
		}
		settle(15 * time.Second)
		if _, body := ask(c, http.MethodGet, statePath(tasks[0]), ""); !strings.Contains(body, `"ProtectionEnabled":false`) {
			t.Errorf("a minute after the last renewal: %s", body)
		}
	})
}

func TestMoreProtectedTasksThanWantedAreRefusedWith200(t *testing.T) {
	c, tasks := standing(t, 2)
	on := `{"ProtectionEnabled":true}`
	ask(c, http.MethodPut, statePath(tasks[1]), on)
	if err := c.Scale("clip", 1); err != nil {
		t.Fatal(err)
	}
	status, body := ask(c, http.MethodPut, statePath(tasks[0]), on)
	if status != http.StatusOK || !strings.Contains(body, `"failure":{`) || !strings.Contains(body, "DEPLOYMENT_BLOCKED") {
		t.Errorf("= %d %s, want 200 with a failure", status, body)
	}
	if _, body := ask(c, http.MethodPut, statePath(tasks[1]), on); !strings.Contains(body, `"ProtectionEnabled":true`) {
		t.Errorf("a renewal was refused: %s", body)
	}
}

func TestMetadataTellsATaskThatItIsToStop(t *testing.T) {
	c, tasks := standing(t, 1)
	if _, body := ask(c, http.MethodGet, "/v4/"+tasks[0].token+"/task", ""); !strings.Contains(body, `"DesiredStatus":"RUNNING"`) || !strings.Contains(body, tasks[0].arn()) {
		t.Errorf("running: %s", body)
	}
	if err := c.Scale("clip", 0); err != nil {
		t.Fatal(err)
	}
	if _, body := ask(c, http.MethodGet, "/v4/"+tasks[0].token+"/task", ""); !strings.Contains(body, `"DesiredStatus":"STOPPED"`) {
		t.Errorf("retired: %s", body)
	}
}

func (c *Cluster) retired(t *task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.slot.retired
}

// settle lets d pass in a bubble and waits until all is quiet.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
