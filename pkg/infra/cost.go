package infra

import (
	"fmt"

	"github.com/stagefleet/stagefleet/pkg/stage"
)

// Prices in US dollars, of us-east-1 on demand, noted in November 2026 from the services' pricing pages and articles that
// quote them. They are inputs of the computation, not facts of this project: look them up before you rely on a sum.
const (
	pricesOf = "us-east-1, on demand, noted in November 2026"

	cpuHour      = 0.04048  // of a vCPU on Fargate, Linux on x86
	memoryHour   = 0.004445 // of a GB of it
	spotShare    = 0.3      // of the price on demand; it moves
	standardCall = 0.40e-6  // an SQS request
	fifoCall     = 0.50e-6
	alarmMonth   = 0.10 // for each metric that an alarm reads
	compositeMon = 0.50
	metricMonth  = 0.30 // a custom metric; Container Insights bills as such
	databaseHour = 0.065
	storageMonth = 0.115 // a GB of the database's disk
	objectMonth  = 0.023 // a GB in S3
	secretMonth  = 0.40
)

// The assumptions of the sums.
const (
	hoursMonth      = 730.0
	clipsPerJob     = 5
	gigabytesPerJob = 1.5 // recording, sound and clips together
	callsPerMessage = 4   // receive, delete, send, and a share of beats
	serviceInsights = 25  // metrics of Container Insights for each service and its task definition,
	clusterInsights = 12  // and for the cluster
	looksMinute     = 6   // calls of the server for each stage: two for the counts of each of its queues, two for what is no dead letter
)

// Cost is one line of a sum.
type Cost struct {
	What    string
	Dollars float64
}

// hour is the price of an hour of a task.
func hour(cpu, memory int) float64 {
	return float64(cpu)/1024*cpuHour + float64(memory)/1024*memoryHour
}

// idle is a month in which nothing is submitted.
func (p plan) idle() []Cost {
	var tasks, calls, alarms float64
	metrics := metricMonth * clusterInsights
	for _, s := range p.stages {
		n := float64(s.Profile.MinTasks)
		tasks += n * hour(s.Profile.CPU, s.Profile.Memory) * hoursMonth
		calls += (n*hoursMonth*3600/s.Durations.Poll.Seconds() + looksMinute*hoursMonth*60) * call(s)
		for _, a := range append(s.Alarms(), s.Paused()) {
			alarms += alarmMonth * metricsOf(a.Signal)
		}
		alarms += 2 * compositeMon
		metrics += metricMonth * float64(ownOf(false)+serviceInsights)
	}
	for _, a := range stage.ServerAlarms() {
		alarms += alarmMonth * metricsOf(a.Signal)
	}
	alarms += compositeMon
	metrics += metricMonth * float64(ownOf(true)+serviceInsights)
	return []Cost{
		{"workers, the fewest of each stage", tasks},
		{server, hour(serverCPU, serverMemory) * hoursMonth},
		{"database, db.t4g.medium in one zone, with its disk", databaseHour*hoursMonth + databaseStorage*storageMonth},
		{"polling and watching the queues", calls},
		{"alarms", alarms},
		{"metrics of tasks and of the fleet's own", metrics},
		{"secrets", 2 * secretMonth},
	}
}

// severalMetrics are the signals that are made of more than one metric.
var severalMetrics = map[stage.Signal]float64{stage.SignalStalled: 3, stage.SignalAge: 2, stage.SignalMissing: 2, stage.SignalServer: 2}

// metricsOf is how many metrics a rule reads.
func metricsOf(s stage.Signal) float64 { return max(1, severalMetrics[s]) }

func ownOf(server bool) int {
	n := 0
	for _, own := range stage.OwnMetrics {
		if own.Server == server && own.Name != "" {
			n++
		}
	}
	return n
}

func call(s stage.Stage) float64 {
	if s.Queue == stage.FIFO {
		return fifoCall
	}
	return standardCall
}

// thousand is what a thousand jobs add, at the stages' typical times with full slots.
func (p plan) thousand() []Cost {
	var costs []Cost
	parts, fanned := 1.0, false
	var calls float64
	for _, s := range p.stages {
		if fanned {
			parts = clipsPerJob
		}
		if s.Join {
			parts = 1
		}
		messages := 1000 * parts
		price := hour(s.Profile.CPU, s.Profile.Memory)
		what := s.Name
		if taken := onSpot(s, float64(s.Profile.MaxTasks)); taken > 0 {
			price *= 1 - taken*(1-spotShare)
			what += fmt.Sprintf(", %.0f %% of it on Spot", 100*taken)
		}
		costs = append(costs, Cost{what, messages * s.Profile.Typical.Hours() / float64(s.Profile.Slots) * price})
		calls += messages * callsPerMessage * call(s)
		fanned = s.FanOut
	}
	return append(costs, Cost{"queues", calls}, Cost{fmt.Sprintf("objects, %g GB a job, kept for a month", gigabytesPerJob), 1000 * gigabytesPerJob * objectMonth})
}

func sum(costs []Cost) float64 {
	total := 0.0
	for _, c := range costs {
		total += c.Dollars
	}
	return total
}
