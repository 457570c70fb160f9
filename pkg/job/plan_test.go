package job_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/job"
)

var planJobs = flag.Int("plans.jobs", 0, "jobs stored when the plans of the hot statements are looked at")

// hot are the statements that run for every step, beat and look, with arguments of the right types.
var hot = map[string][]any{
	"lock_steps":       {job.StepRows, 1},
	"save_steps":       {job.StepRows},
	"claim_steps":      {job.StepRows},
	"finish_steps":     {job.StepRows},
	"save_jobs":        {job.JobRows},
	"save_targets":     {job.TargetRows},
	"close_attempts":   {job.ClosedRows},
	"renew":            {job.RenewalRows},
	"states":           {job.StepRows},
	"progress":         {"s1", "x", "{}"},
	"steps_of_jobs":    {job.JobRows},
	"part_outputs":     {"s1"},
	"older_jobs":       {"t1", 3},
	"take_due":         {"x", 1, 100},
	"outbox_due":       {},
	"delete_sent":      {job.SentRows, job.SentRows},
	"job":              {"acme", "j1"},
	"steps":            {job.JobRows},
	"attempts":         {job.JobRows},
	"seq":              {"acme", "j1"},
	"jobs":             {"acme", "~", 50, ""},
	"jobs_in_state":    {"acme", "~", 50, "", "failed"},
	"watch":            {job.JobRows, job.JobRows},
	"job_of_version":   {"t1", 1},
	"lock_target":      {"t", "acme", "talk"},
	"lock_targets":     {job.NameRows},
	"dead_steps":       {"", 50, ""},
	"dead_step":        {"s1"},
	"retrying":         {},
	"oldest":           {},
	"oldest_dead":      {},
	"open_jobs":        {},
	"orphans":          {"q-ingest", 1, 100},
	"unowned":          {"", 100},
	"overdue_awaits":   {},
	"unseen_events":    {"e1"},
	"garbage":          {1, 100, 0},
	"idle_uploads":     {1, 100, 0},
	"waiting_jobs":     {"acme", 100},
	"waiting_tenants":  {},
	"open_imports":     {},
	"imports":          {"acme", "~", 50},
	"import_rows":      {"i1", "", 7, 500},
	"refused_rows":     {"i1", "", 7, 500},
	"pending_rows":     {"i1", 50},
	"next_row":         {"i1"},
	"postpone_row":     {"i1", "", 7, 1},
	"accept_row":       {"i1", "", 7, "j1"},
	"refuse_row":       {"i1", "", 7, 1, "text", "c", "S."},
	"row_source":       {"i1", "", 7, "{}"},
	"held_lanes":       {},
	"held_parts":       {"acme", "q-compile", 50},
	"parts_under_way":  {"acme", "q-compile"},
	"admit":            {"acme", 1, 1},
	"drifted":          {},
	"recount":          {"acme"},
	"lock_accounts":    {job.AccountRows},
	"job_has_attempts": {"j1"},
	"job_ended":        {"acme", 1, 0, 1},
	"read_account":     {"acme"},
	"lock_await":       {"e1"},
	"park_await":       {"e1", "s1", 1},
	"settle_await":     {"e1"},
	"read_effect":      {"s1", "pay"},
	"end_effect":       {"e1", "s1", "x", "t"},
	"output_of_step":   {"s1"},
	"send_failed":      {job.SentRows, 1, 1},
	"open_queues":      {},
	"open_steps":       {},
	"collected":        {job.AccountRows},
	"jobs_at_stage":    {"acme", "~", 50, "", "ingest", ""},
	"jobs_of_target":   {"acme", "~", 50, "", "", "", "talk1"},
	"jobs_by_id":       {job.JobRows},
	"job_of":           {"j1"},
	"entries":          {"acme", "~", 50},
	"import":           {"acme", "i1"},
	"read_row":         {"i1", "", 7},
	"key":              {"k1"},
	"settle_webhook":   {"h1", 1, "sent", 0, 0},

	"lock_accounts_of_steps": {job.StepRows},
	"lock_account_of_job":    {"j1"},
	"read_idempotency_key":   {"acme", "k"},
	"point_idempotency_key":  {"acme", "k", "j1"},
	"drop_idempotency_key":   {"acme", "k"},
	"webhook_due":            {},
	"take_webhooks":          {1, 4, 32, job.StepRows},
	"webhooks":               {"acme", "j1"},
}

// cold are the other statements that look for rows, with the reason for which their plans need no test.
var cold = map[string]string{
	"clock": "no table", "tune_steps": "once, at a migration", "tune_attempts": "once, at a migration",
	"accounts": fewAccounts, "add_balance": fewAccounts, "change_limits": fewAccounts, "in_flight": fewAccounts, "under_way": fewAccounts,
	"job_reopened": fewAccounts, "job_waits": fewAccounts, "jobs_entered": fewAccounts, "mend_account": fewAccounts,
	"any_key": fewKeys, "expire_key": fewKeys, "key_used": fewKeys, "keys": fewKeys, "revoke_key": fewKeys,
	"retire_webhook_secret": fewKeys, "webhook_secrets": fewKeys, "forget_webhook_secrets": fewKeys,
	"pauses": "a pause per stage", "resume": "a pause per stage", "workers": "a row per process", "resign": "one row",
	"set_webhook": byKey, "take_upload": byKey, "condemn_upload": byKey, "drop_upload": byKey, "upload": byKey, "append_upload": byKey, "finish_upload": byKey,
	"add_import_rows": byKey, "cancel_import": byKey, "drop_import_rows": byKey, "end_import": byKey, "fail_import": byKey, "import_read": byKey,
	"import_waits": byKey, "lock_import": byKey, "refuse_pending_rows": byKey, "row_accepted": byKey, "row_refused": byKey,
	"forget_events": hourly, "forget_keys": hourly, "forget_webhooks": hourly, "forget_workers": hourly, "drop_uploads": hourly,
	"executions": "for a person: back through the attempts until there are enough", "newest_executions": "the newest so many attempts, by their key",
	"outbox_lag": "the first thousand rows, by their index",
}

const (
	fewAccounts = "accounts are few"
	fewKeys     = "keys and secrets are few"
	byKey       = "one row by its primary key, or the rows of one import, when a person asks"
	hourly      = "once an hour, by an index on the time"
)

func TestEveryStatementThatLooksForRowsHasATestedPlanOrAReason(t *testing.T) {
	for name, text := range job.Statements() {
		_, isHot := hot[name]
		_, isCold := cold[name]
		if looks := !strings.HasPrefix(strings.TrimSpace(text), "INSERT"); looks && isHot == isCold {
			t.Errorf("%s must be among the hot statements or among the cold ones", name)
		}
	}
	for name := range cold {
		if _, ok := job.Statements()[name]; !ok {
			t.Errorf("there is no statement %s", name)
		}
	}
}

var (
	// Reads of tables that grow with the jobs, by no index or by the whole of one. The accounts stay few.
	tableRead = regexp.MustCompile(`Seq Scan on (job|step|attempt|target|account_entry|inbox|effect|await|outbox|webhook|import|import_row)\b`)
	indexRead = regexp.MustCompile(`Index (?:Only )?Scan (?:Backward )?(?:using|on) (\w+)`)
	// SQLite may walk a primary key, or all jobs of a tenant, for their order alone.
	liteWalk = regexp.MustCompile(`^SEARCH [stja] USING (?:COVERING )?INDEX (?:sqlite_autoindex_\w+ \(|job_tenant \(tenant=\? AND )id[<>]\?`)
	liteRead = regexp.MustCompile(`^SCAN (?:s|j|t|a|i|o|w|e|step|job|attempt|target|inbox|effect|await|outbox|webhook|account_entry|import|import_row)(?: USING (?:COVERING )?INDEX (\w+))?$`)
)

// partial indexes hold only what is open, dead, waiting or failed, so reading all of one is not reading the table.
var partial = map[string]bool{
	"step_open": true, "step_dead": true, "step_part": true, "step_held": true, "step_parts": true, "attempt_garbage": true, "outbox_failed": true, "await_deadline": true,
	"webhook_ready": true, "import_open": true, "import_row_pending": true, "import_row_refused": true,
}

// wholeRead returns the first line of a plan that reads a whole table, or an index that has an entry for every row of one.
func wholeRead(plan []string) string {
	for i, line := range plan {
		if tableRead.MatchString(line) {
			return line
		}
		if m := liteRead.FindStringSubmatch(strings.TrimSpace(line)); m != nil && !partial[m[1]] {
			return line
		}
		if liteWalk.MatchString(strings.TrimSpace(line)) {
			return line
		}
		if m := indexRead.FindStringSubmatch(line); m != nil && !partial[m[1]] {
			if i+1 == len(plan) || !strings.Contains(plan[i+1], "Index Cond:") {
				return line
			}
		}
	}
	return ""
}

func TestNoHotStatementReadsAWholeTable(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		fill(t, f.s, *planJobs)
		for name, args := range hot {
			plan, err := f.s.Plan(f.ctx, name, args...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if line := wholeRead(plan); line != "" && name != "jobs" { // every job of the tenant is wanted
				t.Errorf("%s reads a whole table: %s\n%s", name, line, strings.Join(plan, "\n"))
			}
		}
	})
}

// fill stores n finished jobs of two steps each, and a few open ones, in bulk.
func fill(t *testing.T, s *job.Store, n int) {
	t.Helper()
	numbers := `(WITH RECURSIVE n(i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $2) SELECT i FROM n) n`
	for _, text := range []string{
		`INSERT INTO target (id, tenant, name, latest, ingested, created_at) SELECT 't' || i, 'acme', 'talk' || i, 1, 1, i FROM ` + numbers,
		`INSERT INTO job (id, tenant, target, version, digest, state, created_at, ended_at)
			SELECT 'j' || i, 'acme', 't' || i, 1, 'd', CASE WHEN i % 1000 = 0 THEN 'active' ELSE 'completed' END, i, i FROM ` + numbers,
		`INSERT INTO step (id, job, tenant, stage, queue, dlq, fifo, state, phase, emitted_at, input, output, created_at)
			SELECT 's' || i, 'j' || i, 'acme', 'ingest', 'q-ingest', 'd', 1, CASE WHEN i % 1000 = 0 THEN 'queued' ELSE 'done' END,
			CASE WHEN i % 1000 = 0 THEN 1 ELSE 0 END, i, '{"v":1}', '{"v":1}', i FROM ` + numbers,
		`INSERT INTO step (id, job, tenant, stage, queue, dlq, fifo, state, phase, emitted_at, input, output, created_at)
			SELECT 'x' || i, 'j' || i, 'acme', 'publish', 'q-publish', 'd', 1, 'done', 0, i, '{"v":1}', '{"v":1}', i FROM ` + numbers,
		`INSERT INTO attempt (id, step, job, emission, worker, outcome, due_at, claimed_at, lease_us, closed_at, garbage)
			SELECT 'a' || i, 's' || i, 'j' || i, 1, 'w', 'done', i, i, 1, i, CASE WHEN i % 100 = 1 THEN 1 ELSE 0 END FROM ` + numbers,
		`INSERT INTO inbox (provider, event, effect, body, at) SELECT 'p', 'e' || i, 'e' || i, '{}', i FROM ` + numbers,
		`INSERT INTO effect (id, step, name, state, at) SELECT 'e' || i, 's' || i, 'pay', 'done', i FROM ` + numbers,
		`INSERT INTO await (effect, step, state) SELECT 'e' || i, 's' || i, 'settled' FROM ` + numbers,
		`INSERT INTO outbox (id, token, ready_at, due_at, queue, fifo, grp, dedup, body, tenant, attributes, step, created_at)
			SELECT 'o' || i, '', 9000000000000000, i, 'q-ingest', 1, 'g', 'd', '{}', 'acme', '{}', 's' || i, i FROM ` + numbers,
		`INSERT INTO import (id, tenant, state, object, created_at, ended_at)
			SELECT 'i' || i, 'acme', CASE WHEN i % 1000 = 0 THEN 'running' ELSE 'completed' END, 'o', i, CASE WHEN i % 1000 = 0 THEN 0 ELSE i END FROM ` + numbers,
		`INSERT INTO import_row (import, sheet, row_no, state, input)
			SELECT 'i' || (i % 10), '', i, CASE WHEN i % 3 = 0 THEN 'accepted' WHEN i % 3 = 1 THEN 'refused' ELSE 'pending' END, '[]' FROM ` + numbers,
	} {
		const most = 100000 // in one statement
		for from := 1; from <= n; from += most {
			if err := s.Change(t.Context(), text, from, min(n, from+most-1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.Postgres() {
		for _, table := range []string{"target", "job", "step", "attempt", "inbox", "effect", "await", "outbox", "import", "import_row"} {
			if err := s.Change(t.Context(), "ANALYZE "+table); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEveryStatementIsUsedAndEveryUseHasOne(t *testing.T) {
	source := ""
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := file.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source += string(raw)
		}
	}
	for name := range job.Statements() {
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("nobody uses statement %s", name)
		}
	}
	for _, use := range regexp.MustCompile(`\bq\("(\w+)"\)`).FindAllStringSubmatch(source, -1) {
		if _, ok := job.Statements()[use[1]]; !ok {
			t.Errorf("no statement is named %s", use[1])
		}
	}
}
