package stage

import (
	"fmt"
	"slices"
)

// Pipeline is the manifest: every stage once, linked by Next. The order of the
// entries carries no meaning; Ordered gives the order of the work.
type Pipeline []Stage

// Stage returns the stage of that name with its defaults, and whether there is one.
func (p Pipeline) Stage(name string) (Stage, bool) {
	i := slices.IndexFunc(p, func(s Stage) bool { return s.Name == name })
	if i < 0 {
		return Stage{}, false
	}
	return p[i].WithDefaults(), true
}

// Ordered returns the stages, with their defaults, in the order of the work. It
// fails as Validate does if the graph is not one chain.
func (p Pipeline) Ordered() ([]Stage, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p.chain(), nil
}

// chain follows Next from the start; only for a validated graph.
func (p Pipeline) chain() []Stage {
	starts := p.starts()
	s, ok := p.Stage(starts[0])
	var stages []Stage
	for ok && len(stages) < len(p) {
		stages = append(stages, s)
		s, ok = p.Stage(s.Next)
	}
	return stages
}

// starts names the stages that no other stage leads to.
func (p Pipeline) starts() []string {
	var names []string
	for _, s := range p {
		if !slices.ContainsFunc(p, func(other Stage) bool { return other.Next == s.Name }) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Route is where the messages of a stage go: queue names, never addresses.
type Route struct {
	Stage string `json:"stage"`
	Queue string `json:"queue"`
	DLQ   string `json:"dlq"`
	FIFO  bool   `json:"fifo"`
	Join  bool   `json:"join"`
	// Window is how much of one tenant may be under way; see Pipeline.Route. Zero: no limit.
	Window int64 `json:"window"`
}

// Route returns the route to the stage of that name in an environment. Of one tenant, as many jobs may be under way as the fleet
// has slots, so that one alone can keep all of them busy; of the parts of its fan-outs twice as many as their stage has slots:
// one in each slot and the next one at hand.
func (p Pipeline) Route(env, name string) (Route, error) {
	s, ok := p.Stage(name)
	if !ok {
		return Route{}, fmt.Errorf("no stage %q in the manifest", name)
	}
	r := Route{Stage: s.Name, Queue: s.QueueName(env), DLQ: s.DLQName(env), FIFO: s.Queue == FIFO, Join: s.Join}
	starts := p.starts()
	switch {
	case len(starts) > 0 && starts[0] == name:
		for _, member := range p {
			r.Window += member.slots()
		}
	case slices.ContainsFunc(p, func(before Stage) bool { return before.FanOut && before.Next == name }):
		r.Window = 2 * s.slots()
	}
	return r, nil
}

// slots is how many messages all tasks of the stage work on at once.
func (s Stage) slots() int64 { return int64(s.WithDefaults().Profile.Ceiling) }

// First returns the route that a new job's first step takes.
func (p Pipeline) First(env string) (Route, error) {
	stages, err := p.Ordered()
	if err != nil {
		return Route{}, err
	}
	return p.Route(env, stages[0].Name)
}

// QueueName returns the name of the stage's queue in an environment.
func (s Stage) QueueName(env string) string { return s.queueName(env, "") }

// DLQName returns the name of the stage's dead-letter queue in an environment.
func (s Stage) DLQName(env string) string { return s.queueName(env, "-dlq") }

func (s Stage) queueName(env, tail string) string {
	name := "stagefleet-" + env + "-" + s.Name + tail
	if s.WithDefaults().Queue == FIFO {
		name += ".fifo"
	}
	return name
}
