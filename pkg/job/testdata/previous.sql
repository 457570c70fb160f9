-- What a worker of the previous release asks the database, word for word. Migrations must leave all of it working: workers are replaced
-- one by one, after the schema. With a release this file becomes a copy of what that release's workers ask.

-- name: lock_steps
WITH locked AS MATERIALIZED (
	SELECT
		s.id, s.job, s.tenant, s.stage, s.part, s.parent, s.parts_left, s.is_first, s.is_join, s.queue, s.dlq, s.fifo,
		s.state, s.code, s.sentence, s.emission, s.emitted_at, s.not_before, s.token, s.lease_until, s.attempt,
		s.attempts, s.crashes, s.rounds, s.worker, s.input, s.event, s.trace, s.ended_at,
		j.target, j.version, j.state AS job_state, j.code AS job_code, j.sentence AS job_sentence, j.gaps, j.price, j.recovered,
		j.ended_at AS job_ended_at,
		t.name, t.latest, t.ingested, t.current_version, t.current_job
	FROM step s JOIN job j ON j.id = s.job JOIN target t ON t.id = j.target
	WHERE s.id IN ids($1)
	ORDER BY j.target, s.job, s.id
	FOR UPDATE OF s
)
SELECT locked.*, now_us() FROM locked

-- name: save_steps
UPDATE step SET
	parts_left = r.parts_left,
	state = r.state,
	phase = r.phase,
	code = r.code,
	sentence = r.sentence,
	emission = r.emission,
	emitted_at = r.emitted_at,
	not_before = r.not_before,
	token = r.token,
	lease_until = r.lease_until,
	attempt = r.attempt,
	attempts = r.attempts,
	crashes = r.crashes,
	rounds = r.rounds,
	worker = r.worker,
	event = r.event,
	trace = r.trace,
	output = COALESCE(r.output, step.output),
	ended_at = r.ended_at,
	rev = step.rev + 1
FROM records($1:
	id text, parts_left bigint, state text, phase bigint, code text, sentence text, emission bigint,
	emitted_at bigint, not_before bigint, token text, lease_until bigint, attempt text, attempts bigint,
	crashes bigint, rounds bigint, worker text, event text, trace text, output text, ended_at bigint
) r WHERE step.id = r.id

-- name: insert_attempts
INSERT INTO attempt (id, step, job, emission, worker, outcome, due_at, claimed_at, lease_us)
SELECT r.id, r.step, r.job, r.emission, r.worker, 'running',
	r.due_at, r.claimed_at, r.lease_us
FROM records($1:
	id text, step text, job text, emission bigint, worker text, due_at bigint, claimed_at bigint,
	lease_us bigint
) r

-- name: renew
WITH mine AS MATERIALIZED (
	SELECT s.id FROM step s JOIN job j ON j.id = s.job
	WHERE s.id IN ids($1)
	ORDER BY j.target, s.job, s.id
	FOR UPDATE OF s
)
UPDATE step SET lease_until = now_us() + r.lease_us
FROM mine JOIN records($1: id text, token text, lease_us bigint) r ON mine.id = r.id
WHERE step.id = mine.id AND step.state = 'running' AND step.token = r.token AND step.lease_until > now_us()
RETURNING step.id

-- name: states
SELECT s.id, s.state FROM step s WHERE s.id IN ids($1)

-- name: progress
UPDATE step SET progress = $3, rev = rev + 1 WHERE id = $1 AND token = $2 AND state = 'running'

-- name: report_worker
INSERT INTO worker (id, stage, status, seen_at) VALUES ($1, $2, $3, now_us())
ON CONFLICT (id) DO UPDATE SET stage = excluded.stage, status = excluded.status, seen_at = excluded.seen_at

-- name: begin_effect
INSERT INTO effect (id, step, name, state, at) VALUES ($1, $2, $3, 'begun', now_us()) ON CONFLICT (step, name) DO NOTHING

-- name: read_effect
SELECT id, state, result FROM effect WHERE step = $1 AND name = $2

-- name: open_await
INSERT INTO await (effect, step, state) VALUES ($1, $2, 'open') ON CONFLICT (effect) DO NOTHING

-- name: end_effect
UPDATE effect SET state = 'done', result = $3 WHERE id = $1 AND step = $2

-- name: lock_all
WITH locked AS MATERIALIZED (
	SELECT
		s.id, s.job, s.tenant, s.stage, s.part, s.parent, s.parts_left, s.is_first, s.is_join, s.queue, s.dlq, s.fifo,
		s.state, s.code, s.sentence, s.emission, s.emitted_at, s.not_before, s.token, s.lease_until, s.attempt,
		s.attempts, s.crashes, s.rounds, s.worker, s.input, s.event, s.trace, s.ended_at,
		j.target, j.version, j.state AS job_state, j.code AS job_code, j.sentence AS job_sentence, j.gaps, j.price, j.recovered,
		j.ended_at AS job_ended_at,
		t.name, t.latest, t.ingested, t.current_version, t.current_job
	FROM step s JOIN job j ON j.id = s.job JOIN target t ON t.id = j.target
	WHERE s.id IN ids($1)
	ORDER BY j.target, s.job, s.id
	FOR UPDATE OF t, j, s
)
SELECT locked.*, now_us() FROM locked

-- name: save_targets
UPDATE target SET
	latest = r.latest,
	ingested = r.ingested,
	current_version = r.current_version,
	current_job = r.current_job
FROM records($1: id text, latest bigint, ingested bigint, current_version bigint, current_job text) r WHERE target.id = r.id

-- name: older_jobs
SELECT j.id FROM job j
WHERE j.target = $1 AND j.version < $2 AND j.state IN ('waiting', 'active')

-- name: steps_of_jobs
SELECT s.id FROM step s WHERE s.job IN ids($1)

-- name: close_attempts
UPDATE attempt SET
	outcome = r.outcome,
	reason = r.reason,
	counted = r.counted,
	garbage = r.garbage,
	closed_at = r.closed_at,
	received_at = r.received_at,
	started_at = r.started_at,
	ended_at = r.ended_at,
	provider_wait = r.provider_wait,
	requests = r.requests,
	input_tokens = r.input_tokens,
	output_tokens = r.output_tokens,
	tools = r.tools
FROM records($1:
	id text, outcome text, reason text, counted bigint, garbage bigint, closed_at bigint,
	received_at bigint, started_at bigint, ended_at bigint, provider_wait bigint,
	requests bigint, input_tokens bigint, output_tokens bigint, tools text
) r WHERE attempt.id = r.id

-- name: insert_steps
INSERT INTO step (id, job, tenant, stage, part, parent, is_first, is_join, queue, dlq, fifo, window_size, state, phase, ended_at, emission, emitted_at, input, trace, created_at)
SELECT r.id, r.job, r.tenant, r.stage, r.part,
	r.parent, r.is_first, r.is_join, r.queue,
	r.dlq, r.fifo, r.window_size, r.state, r.phase, r.ended_at, r.emission,
	r.emitted_at, r.input, r.trace, r.emitted_at
FROM records($1:
	id text, job text, tenant text, stage text, part bigint, parent text, is_first bigint,
	is_join bigint, queue text, dlq text, fifo bigint, window_size bigint, state text, phase bigint, ended_at bigint, emission bigint, emitted_at bigint,
	input text, trace text
) r

-- name: insert_outbox
INSERT INTO outbox (id, token, ready_at, due_at, not_before, queue, fifo, grp, dedup, body, tenant, attributes, step, created_at)
SELECT r.id, r.token, r.ready_at, r.due_at,
	r.not_before, r.queue, r.fifo, r.grp, r.dedup,
	r.body, r.tenant, r.attributes, r.step, r.created_at
FROM records($1:
	id text, token text, ready_at bigint, due_at bigint, not_before bigint, queue text, fifo bigint,
	grp text, dedup text, body text, tenant text, attributes text, step text, created_at bigint
) r

-- name: delete_sent
DELETE FROM outbox WHERE id IN ids($1)
	AND EXISTS (SELECT 1 FROM records($1: id text, token text) r WHERE r.id = outbox.id AND r.token = outbox.token)

-- name: send_failed
UPDATE outbox SET
	failures = outbox.failures + 1,
	token = '',
	ready_at = now_us() + (CASE WHEN outbox.failures < 6 AND CAST($2 AS BIGINT) * (1 << CAST(outbox.failures AS INTEGER)) < CAST($3 AS BIGINT)
		THEN CAST($2 AS BIGINT) * (1 << CAST(outbox.failures AS INTEGER)) ELSE CAST($3 AS BIGINT) END)
FROM records($1: id text, token text) r WHERE outbox.id = r.id AND outbox.token = r.token

-- name: lock_accounts_of_steps
SELECT a.tenant FROM account a
WHERE a.tenant IN (SELECT s.tenant FROM step s WHERE s.id IN ids($1))
ORDER BY a.tenant FOR UPDATE

-- name: save_jobs
UPDATE job SET
	state = r.state,
	code = r.code,
	sentence = r.sentence,
	gaps = r.gaps,
	result = COALESCE(r.result, job.result),
	recovered = r.recovered,
	ended_at = r.ended_at,
	rev = job.rev + 1
FROM records($1:
	id text, state text, code text, sentence text, gaps text, result text, recovered bigint,
	ended_at bigint
) r WHERE job.id = r.id

-- name: job_ended
UPDATE account SET in_flight = in_flight - 1, waiting = waiting - $3, balance = balance + $2 WHERE tenant = $1

-- name: job_has_attempts
SELECT COUNT(*) FROM attempt WHERE job = $1

-- name: insert_entry
INSERT INTO account_entry (id, tenant, job, kind, once, amount, note, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now_us())
ON CONFLICT (once) DO NOTHING

-- name: insert_webhooks
INSERT INTO webhook (id, tenant, job, url, state, body, ready_at, created_at)
SELECT r.id, j.tenant, j.id, j.webhook, 'pending', r.body, now_us(), now_us()
FROM records($1: id text, job text, body text) r JOIN job j ON j.id = r.job WHERE j.webhook <> ''

-- name: lock_await
SELECT step, state FROM await WHERE effect = $1 FOR UPDATE

-- name: park_await
UPDATE await SET state = 'parked', deadline = $3 WHERE effect = $1 AND step = $2

-- name: unseen_events
SELECT i.body FROM inbox i WHERE i.effect = $1 AND i.at > (SELECT w.seen FROM await w WHERE w.effect = $1) ORDER BY i.at DESC LIMIT 1

-- name: settle_await
UPDATE await SET state = 'settled', seen = COALESCE((SELECT MAX(i.at) FROM inbox i WHERE i.effect = $1), seen) WHERE effect = $1

-- name: part_outputs
SELECT s.id, s.output FROM step s WHERE s.parent = $1 AND s.parent <> '' ORDER BY s.part

-- name: output_of_step
SELECT s.output FROM step s WHERE s.id = $1

-- name: pauses
SELECT stage, reason, who, at, until FROM pause WHERE until = 0 OR until > (SELECT now_us()) ORDER BY stage

-- name: clock
SELECT now_us()
