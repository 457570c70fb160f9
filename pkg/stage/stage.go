// Package stage says what a stage of the pipeline is: its queue, its profile, its
// durations, its retries. It validates one stage and the whole graph, names the
// queues, and is the only producer and the only parser of the settings that a
// worker process is started with. It starts nothing and knows no cloud; the
// worker, the supervisor, the template generator and the doctor all read it.
package stage

import "time"

// Kind is the kind of queue that feeds a stage.
type Kind string

// The two kinds of queue.
const (
	// FIFO gives exclusion per target: two steps of one recording never run at once.
	FIFO Kind = "fifo"
	// Standard gives no order and no exclusion; the record alone keeps steps apart.
	Standard Kind = "standard"
)

// Stage is one entry of the manifest. Zero fields take the documented defaults
// (see WithDefaults), so an entry states only what is particular to the stage.
type Stage struct {
	// Name is the stage's name everywhere: queue, binary, metric label. Words of lower-case
	// letters and digits, each beginning with a letter, joined by hyphens, at most 32 bytes.
	Name string `json:"name"`
	// Summary is one line for people.
	Summary string `json:"summary"`
	// Queue is the kind of the stage's queue. Default FIFO.
	Queue Kind `json:"queue"`
	// Next is the stage that follows; empty for the last one.
	Next string `json:"next"`
	// FanOut says that one message in makes any number of messages out, one per part.
	FanOut bool `json:"fanOut"`
	// Join says that the stage gets one message when the last part is done.
	Join bool `json:"join"`
	// Providers are those that the stage's handler can call, "speech" and "language"; it
	// alone gets their keys. Default none.
	Providers []string `json:"providers"`
	// ReadsOnly says that the handler makes no objects, so its role may write none. Default false.
	ReadsOnly bool `json:"readsOnly"`

	Profile   Profile   `json:"profile"`
	Durations Durations `json:"durations"`
	Retry     Retry     `json:"retry"`
	Breaker   Breaker   `json:"breaker"`
}

// Profile bounds what a stage may use.
type Profile struct {
	// Slots is how many messages one task works on at once. Default 1.
	Slots int `json:"slots"`
	// MinTasks and MaxTasks bound the fleet's tasks of this stage. Defaults 1 and 1.
	MinTasks int `json:"minTasks"`
	MaxTasks int `json:"maxTasks"`
	// Ceiling bounds MaxTasks x Slots, whatever scaling wants. Default: that product.
	Ceiling int `json:"ceiling"`
	// MaxInput is the largest object in bytes that a handler may open. Default 4 GiB.
	MaxInput int64 `json:"maxInput"`
	// TimeLimit ends a handler that runs longer; a counted failure. Default 30 min.
	TimeLimit time.Duration `json:"timeLimitNs"`
	// CPU is in units of 1/1024 of a core, Memory in MiB. Defaults 256 and 512.
	CPU    int `json:"cpu"`
	Memory int `json:"memory"`
	// IOBound says that slots wait on providers rather than use the processor.
	IOBound bool `json:"ioBound"`
	// Objective is how long a message may wait before people are told. Default 10 min.
	Objective time.Duration `json:"objectiveNs"`
	// Typical is how long a handler usually takes; with Objective it says how much work may
	// wait per task before there are more tasks. Default: a tenth of TimeLimit.
	Typical time.Duration `json:"typicalNs"`
	// Spot says that tasks beyond MinTasks may run on capacity that is taken back with two
	// minutes' notice: a drain like any other, but it comes unasked. Default false.
	Spot bool `json:"spot"`
}

// Durations are a stage's times. JSON carries nanoseconds.
type Durations struct {
	// Visibility is how long a received message stays hidden between beats. Default 7 min.
	Visibility time.Duration `json:"visibilityNs"`
	// Lease is how long the record lets an owner execute between beats. Default: Visibility.
	Lease time.Duration `json:"leaseNs"`
	// Beat is the period at which both are renewed. Default 3 min.
	Beat time.Duration `json:"beatNs"`
	// Poll is the long poll's wait, whole seconds, at most 20 s. Default 20 s.
	Poll time.Duration `json:"pollNs"`
	// Drain is how long handlers may go on after a stop was asked for. Default 30 s.
	Drain time.Duration `json:"drainNs"`
	// Grace is what handlers get after their contexts have ended. Default 3 s.
	Grace time.Duration `json:"graceNs"`
	// Settle is what recording and handing back may take afterwards. Default 8 s.
	Settle time.Duration `json:"settleNs"`
	// StopTimeout is when the process is killed. More than the three, at most 120 s. Default 45 s.
	StopTimeout time.Duration `json:"stopTimeoutNs"`
	// Protection is the expiry asked for task scale-in protection. Default 2 h.
	Protection time.Duration `json:"protectionNs"`
	// Retention is the queue's, DLQRetention that of its dead-letter queue. Defaults 4 and 14 days.
	Retention    time.Duration `json:"retentionNs"`
	DLQRetention time.Duration `json:"dlqRetentionNs"`
}

// Retry says how often and after what waits a step is tried.
type Retry struct {
	// Attempts is the number of executions that may fail. Default 3.
	Attempts int `json:"attempts"`
	// Waits are the pauses before the second attempt, the third, and so on.
	// Default 30 s, 60 s, 120 s; at least Attempts-1 of them.
	Waits []time.Duration `json:"waitsNs"`
	// Jitter is the share of a wait that is random, 0 to 1. Default 0.1.
	Jitter float64 `json:"jitter"`
	// MaxRetryAfter is the longest wait a provider may ask for within an attempt's
	// retry; a longer one defers the step instead. Default 5 min.
	MaxRetryAfter time.Duration `json:"maxRetryAfterNs"`
	// Crashes is how many owners may be lost before the step dies. Default 3.
	Crashes int `json:"crashes"`
	// MaxReceives is the queue's own limit (maxReceiveCount). Default 3.
	MaxReceives int `json:"maxReceives"`
}

// Breaker bounds how long a stage keeps calling a dependency that fails.
type Breaker struct {
	// Window is the rolling span over which finished calls are counted. Default 30 s.
	Window time.Duration `json:"windowNs"`
	// Ratio of failed to finished calls at which it opens, above 0 to 1. Default 0.5.
	Ratio float64 `json:"ratio"`
	// MinSamples is the number of finished calls below which it never opens. Default 4.
	MinSamples int `json:"minSamples"`
	// CallTime is how long one call usually takes; it shows whether MinSamples can
	// be reached within Window. Default 5 s.
	CallTime time.Duration `json:"callTimeNs"`
	// Open is how long it stays open before one probe is let through. Default 30 s.
	Open time.Duration `json:"openNs"`
}
