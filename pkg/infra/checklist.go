package infra

import (
	"slices"
	"strings"
)

// section is a part of the list of what a deployment of queue workers needs.
type section struct {
	Title string
	Items []item
}

// item is one need, how it is met or why it is not, and what holds it: the row is done only as long as that does.
type item struct {
	N         int
	What, How string
	// By are what would fail if the row were no longer true: "rule NAME" is a rule of Check, which a template must break;
	// "field NAME" one of the manifest's validation; "test PACKAGE.NAME" a test.
	By []string
}

// Held is By for people.
func (i item) Held() string {
	var all []string
	for _, by := range i.By {
		kind, name, _ := strings.Cut(by, " ")
		all = append(all, kind+" `"+name+"`")
	}
	return strings.Join(all, ", ")
}

func rulesNamed(names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, "rule "+n)
	}
	return all
}

func fieldsNamed(names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, "field "+n)
	}
	return all
}

var checklist = []section{
	{"Queues", []item{
		{1, "messages are encrypted at rest", "done: SQS-managed keys on every queue; no key of one's own, so no key policy to get wrong", rulesNamed("queue-encryption", "queue-surplus")},
		{2, "no request without TLS", "done: a policy on each queue, each dead-letter queue, the bucket and the topics", rulesNamed("tls-only", "topic-policy")},
		{3, "a poison message stops soon", "done: maxReceiveCount of the manifest, 3; validated to be at least 2", slices.Concat(rulesNamed("max-receives"), fieldsNamed("Retry.MaxReceives"))},
		{4, "a dead-letter queue takes from its source alone", "done: redrive-allow by queue", rulesNamed("redrive-allow")},
		{5, "dead letters outlive messages", "done: 14 days against 4; validated", slices.Concat(rulesNamed("dlq-retention", "queue-retention"), fieldsNamed("Durations.DLQRetention"))},
		{6, "a message is hidden for longer than two beats", "done: validated; handlers of any length are kept hidden by beats", slices.Concat(rulesNamed("queue-visibility"), fieldsNamed("Durations.Beat"))},
		{7, "long polls and a bound for messages", "done: 20 s and 16 KiB, on the queue", rulesNamed("queue-poll", "queue-size")},
		{8, "FIFO in name, type of the dead-letter queue and throughput settings", "done: all four from the one field of the manifest", rulesNamed("queue-type", "queue-throughput")},
		{9, "a deleted stack keeps queues and logs", "done: retained on delete and replace, not when their first creation fails", rulesNamed("queue-kept", "logs-kept")},
		{10, "names fit, and no two environments share one", "done: validated with the environment in them, 80 bytes; an environment's name has no hyphen", slices.Concat(rulesNamed("queue-name"), fieldsNamed("Name", "Env"))},
	}},
	{"Alarms", []item{
		{11, "dead letters by what is visible", "done: maximum of one minute, one of one; neither counts of sends nor in-flight messages", rulesNamed("alarm-metric", "alarm-window")},
		{12, "depth over minutes", "done: above 100 in three of five", rulesNamed("alarm-threshold", "alarm-window")},
		{13, "age against an objective of the stage", "done: Objective in the manifest", slices.Concat(rulesNamed("alarm-threshold"), fieldsNamed("Profile.Objective"))},
		{14, "a silent queue is no alarm", "done: missing data never breach", rulesNamed("alarm-missing-data")},
		{15, "the description says what to do", "done: meaning, first action, link to a heading that exists", rulesNamed("alarm-runbook")},
		{16, "alarm and recovery are told, to topics that admit this account alone", "done: two topics", rulesNamed("alarm-actions", "topic-policy")},
		{17, "people are woken by composites", "done: stage-broken and server-broken page, the rest informs", rulesNamed("alarm-actions", "composite-rule", "alarm-suppressor")},
		{18, "fewer tasks than wanted for ten minutes", "done: tasks-missing", rulesNamed("missing", "alarm-window")},
		{19, "panics and messages that cannot be understood", "done: quarantines, from a metric of the workers' own", rulesNamed("missing", "alarm-metric")},
		{20, "a composite names alarms that exist", "done: built from the same list, references of the stack", rulesNamed("composite-rule", "reference")},
		{21, "a dashboard whose lines are the thresholds", "done: a row a stage and one for the server; without cost and model latency, which are in the record and in Prometheus", rulesNamed("dashboard")},
	}},
	{"Scaling", []item{
		{22, "backlog per running task without a function", "done: metric math; it needs Container Insights, which costs", rulesNamed("scaling-metric", "container-insights")},
		{23, "gaps and zero tasks", "done: gaps count as zero, it never divides by less than one", rulesNamed("scaling-metric")},
		{24, "the target from latency and working time", "done: Objective, Typical and Slots of the manifest", slices.Concat(rulesNamed("scaling-target"), fieldsNamed("Profile.Typical"))},
		{25, "a floor and a ceiling", "done: at least one task; MaxTasks times Slots within Ceiling, validated", slices.Concat(rulesNamed("scaling-bounds"), fieldsNamed("Profile.MinTasks", "Profile.Ceiling"))},
		{26, "out in one minute, in after five, nothing beside it", "done", rulesNamed("scaling-pace", "scaling-metric")},
		{27, "a deployment does not undo scaling", "done: no desired count on stages; the server has one, it is not scaled", rulesNamed("desired-count", "server-count")},
		{28, "FIFO: no more tasks than groups", "done while it runs: backlog counts only as far as groups are free to be worked on; MaxTasks is the bound in advance", rulesNamed("scaling-metric")},
	}},
	{"Service and task", []item{
		{29, "a bad deployment goes back", "done: circuit breaker and alarms with rollback, 100 and 200 %; never on dead letters", rulesNamed("circuit-breaker", "deployment-alarms", "deployment-percent")},
		{30, "the platform waits longer than the drain", "done: stopTimeout of the manifest, at most 120 s; validated", slices.Concat(rulesNamed("stop-timeout"), fieldsNamed("Durations.StopTimeout"))},
		{31, "signals arrive", "done: init process; images start the binary itself", slices.Concat(rulesNamed("init-process", "task-container"), []string{"test pkg/infra.TestEveryImageStartsTheBinaryItself"})},
		{32, "long work is protected", "done: by the worker through the agent, longer than the time limit; validated", slices.Concat(rulesNamed("grant-target"), fieldsNamed("Profile.TimeLimit", "Durations.Protection"), []string{"test pkg/protect.TestProtectionGoesOnBeforeTheFirstMessageAndOffAfterAMinuteIdle"})},
		{33, "sizes that are sold, images of the right processor", "done: sizes validated; the processor is a parameter, the image's is not looked at", slices.Concat(rulesNamed("task-size", "task-platform"), fieldsNamed("Profile.CPU", "Profile.Memory"))},
		{34, "Spot where a stage says so", "done: its MinTasks stay on demand", rulesNamed("spot")},
		{35, "root is read-only, the user is not root, no capabilities", "done: one scratch volume; other images must declare it", rulesNamed("read-only-root", "non-root", "capabilities", "scratch")},
		{36, "images by digest", "done: a parameter that takes nothing else, version consistency on", rulesNamed("image-digest")},
		{37, "secrets by reference", "done: the execution role reads exactly those", rulesNamed("secret-by-reference", "grant-target")},
		{38, "a health check without a shell", "done: the binaries' own commands; the server is asked by its load balancer too", rulesNamed("health-check", "load-balancer")},
		{39, "private subnets, nothing comes in", "done: the load balancer alone; a public address only by parameter", rulesNamed("private-network", "network")},
		{40, "logs do not hold work up", "done: non-blocking with 25 MB; what is more is lost", rulesNamed("logs-nonblocking")},
	}},
	{"Identity", []item{
		{41, "a role for each stage", "done: receives from its own queue; sends to its own, its dead letters, the next and, after a fan-out, the join; the calls in the code are compared with the grants", slices.Concat(rulesNamed("grant-target"), []string{"test pkg/infra.TestEveryCallOfAProcessIsGrantedAndEveryGrantIsCalled"})},
		{42, "protection of the cluster's own tasks", "done", rulesNamed("grant-target")},
		{43, "one parameter", "done: the kill switch's", rulesNamed("grant-target", "settings")},
		{44, "roles are taken by this account's tasks, starting apart from working", "done", rulesNamed("trust", "task-roles")},
		{45, "no star", "done: but for the registry's token, which takes no resource", rulesNamed("grant-star")},
	}},
	{"Surroundings", []item{
		{46, "logs end", "done: 30 days", rulesNamed("log-retention")},
		{47, "endpoints", "done: by parameter", rulesNamed("endpoints")},
		{48, "a budget", "done: told at 80 % and on a forecast above it", rulesNamed("budget")},
		{49, "tags", "done: app, env, stage, owner, and the tasks get the service's", rulesNamed("tags")},
		{50, "outputs", "done: queues, dead letters, secret, repository, dashboard", rulesNamed("outputs")},
		{51, "the manifest's hash", "done: in each description, in a tag of each service and in the workers' settings", rulesNamed("manifest-hash", "settings")},
		{52, "templates can be given as text", "done: below 51,200 bytes and 500 resources, tested", slices.Concat(rulesNamed("size"), []string{"test pkg/infra.TestEveryTemplateCanBeDeployedAsText"})},
	}},
}
