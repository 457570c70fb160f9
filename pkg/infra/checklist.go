package infra

// section is a part of the list of what a deployment of queue workers needs.
type section struct {
	Title string
	Items []item
}

// item is one need and how it is met, or why it is not.
type item struct {
	N         int
	What, How string
}

var checklist = []section{
	{"Queues", []item{
		{1, "messages are encrypted at rest", "done: SQS-managed keys on every queue; no key of one's own, so no key policy to get wrong"},
		{2, "no request without TLS", "done: a policy on each queue, each dead-letter queue, the bucket and the topics"},
		{3, "a poison message stops soon", "done: maxReceiveCount of the manifest, 3; validated to be at least 2"},
		{4, "a dead-letter queue takes from its source alone", "done: redrive-allow by queue"},
		{5, "dead letters outlive messages", "done: 14 days against 4; validated"},
		{6, "a message is hidden for longer than two beats", "done: validated; handlers of any length are kept hidden by beats"},
		{7, "long polls and a bound for messages", "done: 20 s and 16 KiB, on the queue"},
		{8, "FIFO in name, type of the dead-letter queue and throughput settings", "done: all four from the one field of the manifest"},
		{9, "a deleted stack keeps queues and logs", "done: retained on delete and replace"},
		{10, "names fit", "done: validated with the environment in them, 80 bytes"},
	}},
	{"Alarms", []item{
		{11, "dead letters by what is visible", "done: maximum of one minute, one of one; neither counts of sends nor in-flight messages"},
		{12, "depth over minutes", "done: above 100 in three of five"},
		{13, "age against an objective of the stage", "done: Objective in the manifest"},
		{14, "a silent queue is no alarm", "done: missing data never breach"},
		{15, "the description says what to do", "done: meaning, first action, link to a heading that exists"},
		{16, "alarm and recovery are told, to topics that admit this account alone", "done: two topics"},
		{17, "people are woken by composites", "done: stage-broken and server-broken page, the rest informs"},
		{18, "fewer tasks than wanted for ten minutes", "done: tasks-missing"},
		{19, "panics and messages that cannot be understood", "done: quarantines, from a metric of the workers' own"},
		{20, "a composite names alarms that exist", "done: built from the same list, references of the stack"},
		{21, "a dashboard whose lines are the thresholds", "done: a row a stage; without cost and model latency, which are in the record"},
	}},
	{"Scaling", []item{
		{22, "backlog per running task without a function", "done: metric math; it needs Container Insights, which costs"},
		{23, "gaps and zero tasks", "done: gaps count as zero, it never divides by less than one"},
		{24, "the target from latency and working time", "done: Objective, Typical and Slots of the manifest"},
		{25, "a floor and a ceiling", "done: at least one task; MaxTasks times Slots within Ceiling, validated"},
		{26, "out in one minute, in after five, nothing beside it", "done"},
		{27, "a deployment does not undo scaling", "done: no desired count on stages; the server has one, it is not scaled"},
		{28, "FIFO: no more tasks than groups", "done while it runs: backlog counts only as far as groups are free to be worked on; MaxTasks is the bound in advance"},
	}},
	{"Service and task", []item{
		{29, "a bad deployment goes back", "done: circuit breaker and alarms with rollback, 100 and 200 %; never on dead letters"},
		{30, "the platform waits longer than the drain", "done: stopTimeout of the manifest, at most 120 s; validated"},
		{31, "signals arrive", "done: init process; images start the binary itself"},
		{32, "long work is protected", "done: by the worker through the agent, longer than the time limit; validated"},
		{33, "sizes that are sold, images of the right processor", "done: sizes validated; the processor is a parameter, the image's is not looked at"},
		{34, "Spot where a stage says so", "done: its MinTasks stay on demand"},
		{35, "root is read-only, the user is not root, no capabilities", "done: one scratch volume; other images must declare it"},
		{36, "images by digest", "done: a parameter that takes nothing else, version consistency on"},
		{37, "secrets by reference", "done: the execution role reads exactly those"},
		{38, "a health check without a shell", "done for workers: their own command; the server is asked by its load balancer"},
		{39, "private subnets, nothing comes in", "done: the load balancer alone; a public address only by parameter"},
		{40, "logs do not hold work up", "done: non-blocking with 25 MB; what is more is lost"},
	}},
	{"Identity", []item{
		{41, "a role for each stage", "done: receives from its own queue; sends to its own, its dead letters, the next and, after a fan-out, the join; the calls in the code are compared with the grants"},
		{42, "protection of the cluster's own tasks", "done"},
		{43, "one parameter", "done: the kill switch's"},
		{44, "roles are taken by this account's tasks, starting apart from working", "done"},
		{45, "no star", "done: but for the registry's token, which takes no resource"},
	}},
	{"Surroundings", []item{
		{46, "logs end", "done: 30 days"},
		{47, "endpoints", "done: by parameter"},
		{48, "a budget", "done: told at 80 % and on a forecast above it"},
		{49, "tags", "done: app, env, stage, owner, and the tasks get the service's"},
		{50, "outputs", "done: queues, dead letters, secret, repository, dashboard"},
		{51, "the manifest's hash", "done: in each description, in a tag of each service and in the workers' settings"},
		{52, "templates can be given as text", "done: below 51,200 bytes and 500 resources, tested"},
	}},
}
