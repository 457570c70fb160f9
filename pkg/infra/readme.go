package infra

import (
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/control"
	"github.com/stagefleet/stagefleet/pkg/stage"
)

// readme is the page of the folder: how to deploy, what it costs, how to upgrade, and what the templates hold.
func (p plan) readme() ([]File, error) {
	templates, err := Templates(p.all, p.env)
	if err != nil {
		return nil, err
	}
	text, err := texts.ReadFile("text/README.md")
	if err != nil {
		return nil, err
	}
	data := map[string]any{
		"Env": p.env, "Cluster": p.cluster(), "Parameter": control.ParameterName(p.env), "Stacks": stacks(templates), "Stages": p.rows(),
		"Idle": lines(p.idle()), "IdleSum": dollars(sum(p.idle())), "Thousand": lines(p.thousand()), "ThousandSum": dollars(sum(p.thousand())),
		"Prices": pricesOf, "Clips": clipsPerJob, "Checklist": checklist, "Alarms": p.alarmRows(), "LogDays": LogDays, "BackupDays": backupDays,
		"Quotas": p.quotas(), "User": User, "Scratch": ScratchPath, "Port": apiPort, "Health": healthAddr,
	}
	filled, err := fill("README", string(text), data)
	return []File{{"README.md", []byte(mark(filled))}}, err
}

func dollars(d float64) string { return fmt.Sprintf("%.2f", d) }

func lines(costs []Cost) [][2]string {
	var all [][2]string
	for _, c := range costs {
		all = append(all, [2]string{c.What, dollars(c.Dollars)})
	}
	return all
}

func stacks(templates []Template) [][]string {
	var all [][]string
	for _, t := range templates {
		all = append(all, []string{t.Name, itoa(len(t.Resources)), t.Description})
	}
	return all
}

func (p plan) rows() [][]string {
	var all [][]string
	for _, s := range p.stages {
		capacity := "on demand"
		if s.Profile.Spot {
			capacity = fmt.Sprintf("beyond %d: %d of %d on Spot", s.Profile.MinTasks, spotWeight, demandWeight+spotWeight)
		}
		all = append(all, []string{s.Name, s.QueueName(p.env), fmt.Sprintf("%d to %d x %d slots", s.Profile.MinTasks, s.Profile.MaxTasks, s.Profile.Slots),
			fmt.Sprintf("%g", s.BacklogTarget()), fmt.Sprintf("%d / %d MiB", s.Profile.CPU, s.Profile.Memory), s.Durations.StopTimeout.String(), capacity})
	}
	return all
}

func (p plan) alarmRows() [][]string {
	var all [][]string
	for _, pg := range p.pages() {
		all = append(all, []string{pg.Name, string(pg.Severity), pg.Summary})
	}
	return all
}

// quota is a limit of an account, by its default, and what the fleet needs of it.
type quota struct {
	What, Default string
	Limit, Base   float64 // Base is the need at the manifest's most tasks
	Note          string
}

// Need tells at how many times the manifest's load the quota binds.
func (q quota) Need(times float64) string {
	need := q.Base * times
	if need > q.Limit {
		return fmt.Sprintf("**%.0f, ask**", need)
	}
	return fmt.Sprintf("%.0f", need)
}

// The connections that a worker has beside its slots', for beats, pauses, reports and what it sends, and those of the server.
const (
	ownConnections    = 4
	serverConnections = 10
)

// quotas are those that a growing fleet meets first. The defaults are of Service Quotas and the services' guides, noted in
// November 2026; yours may differ.
func (p plan) quotas() []quota {
	var cpu, spot, tasks, connections, reads float64
	for _, s := range p.stages {
		n := float64(s.Profile.MaxTasks)
		tasks += n
		connections += n * float64(s.Profile.Slots+ownConnections)
		reads += n / 15
		size, taken := n*float64(s.Profile.CPU)/1024, onSpot(s, n)
		spot += size * taken
		cpu += size * (1 - taken)
	}
	cpu += serverCPU / 1024.0
	connections += serverConnections
	return []quota{
		{"Fargate vCPUs on demand", "6,000 in old accounts, far fewer in new ones", 6000, cpu, "raise it before the first load test; a deployment needs up to twice as many for a while"},
		{"Fargate Spot vCPUs", "6,000, fewer in new accounts", 6000, spot, ""},
		{"tasks of one service", "5,000", 5000, maxTasks(p.stages), "beyond it a stage must be split"},
		{"database connections, a slot's and four of each worker's own", "about 400 on db.t4g.medium", 400, connections, "a larger class, or a pooler in front; a deployment needs up to twice as many for a while"},
		{"GetParameter calls a second", "40, with higher throughput 10,000", 40, reads, "turn higher throughput on, or lengthen the look at the switch"},
		{"in-flight messages of one queue", "120,000", 120000, maxSlots(p.stages), ""},
	}
}

func maxTasks(stages []stage.Stage) float64 {
	most := 0
	for _, s := range stages {
		most = max(most, s.Profile.MaxTasks)
	}
	return float64(most)
}

func maxSlots(stages []stage.Stage) float64 {
	most := 0
	for _, s := range stages {
		most = max(most, s.Profile.MaxTasks*s.Profile.Slots)
	}
	return float64(most)
}

// script deploys the stacks in their order.
func (p plan) script() ([]File, error) {
	text, err := texts.ReadFile("text/deploy.sh")
	if err != nil {
		return nil, err
	}
	names := ""
	for _, s := range p.stages {
		names += " " + s.Name
	}
	filled, err := fill("deploy.sh", string(text), map[string]string{"Env": p.env, "Stages": names, "First": p.stages[0].Name, "Generated": generated})
	return []File{{"deploy.sh", []byte(filled)}}, err
}
