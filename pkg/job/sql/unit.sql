-- The statements of a unit of work: lock and read, then write what has changed, set by set.
-- Locks are taken in the order account, target, job, step; within one statement by target, job, step.

-- name: lock_accounts
SELECT tenant FROM account
WHERE tenant IN ids($1)
ORDER BY tenant FOR UPDATE

-- name: lock_account_of_job
SELECT a.tenant FROM account a WHERE a.tenant IN (SELECT j.tenant FROM job j WHERE j.id = $1) FOR UPDATE

-- name: lock_accounts_of_steps
SELECT a.tenant FROM account a
WHERE a.tenant IN (SELECT s.tenant FROM step s WHERE s.id IN ids($1))
ORDER BY a.tenant FOR UPDATE

-- The clock is read outside the part that waits for locks, so that it is later than every wait of its row.
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

-- name: steps_of_jobs
SELECT s.id FROM step s WHERE s.job IN ids($1)

-- name: older_jobs
SELECT j.id FROM job j
WHERE j.target = $1 AND j.version < $2 AND j.state IN ('waiting', 'active')

-- name: part_outputs
SELECT s.id, s.output FROM step s WHERE s.parent = $1 AND s.parent <> '' ORDER BY s.part

-- name: output_of_step
SELECT s.output FROM step s WHERE s.id = $1

-- name: save_steps
UPDATE step SET
	parts_left = CAST(r.value->>'parts_left' AS BIGINT),
	state = r.value->>'state',
	phase = CAST(r.value->>'phase' AS BIGINT),
	code = r.value->>'code',
	sentence = r.value->>'sentence',
	emission = CAST(r.value->>'emission' AS BIGINT),
	emitted_at = CAST(r.value->>'emitted_at' AS BIGINT),
	not_before = CAST(r.value->>'not_before' AS BIGINT),
	token = r.value->>'token',
	lease_until = CAST(r.value->>'lease_until' AS BIGINT),
	attempt = r.value->>'attempt',
	attempts = CAST(r.value->>'attempts' AS BIGINT),
	crashes = CAST(r.value->>'crashes' AS BIGINT),
	rounds = CAST(r.value->>'rounds' AS BIGINT),
	worker = r.value->>'worker',
	event = r.value->>'event',
	trace = r.value->>'trace',
	output = COALESCE(r.value->>'output', step.output),
	ended_at = CAST(r.value->>'ended_at' AS BIGINT),
	rev = step.rev + 1
FROM rows($1) r WHERE match(step, r, $1)

-- name: save_jobs
UPDATE job SET
	state = r.value->>'state',
	code = r.value->>'code',
	sentence = r.value->>'sentence',
	gaps = r.value->>'gaps',
	result = COALESCE(r.value->>'result', job.result),
	recovered = CAST(r.value->>'recovered' AS BIGINT),
	ended_at = CAST(r.value->>'ended_at' AS BIGINT),
	rev = job.rev + 1
FROM rows($1) r WHERE match(job, r, $1)

-- name: save_targets
UPDATE target SET
	latest = CAST(r.value->>'latest' AS BIGINT),
	ingested = CAST(r.value->>'ingested' AS BIGINT),
	current_version = CAST(r.value->>'current_version' AS BIGINT),
	current_job = r.value->>'current_job'
FROM rows($1) r WHERE match(target, r, $1)

-- name: insert_steps
INSERT INTO step (id, job, tenant, stage, part, parent, is_first, is_join, queue, dlq, fifo, state, emission, emitted_at, input, trace, created_at)
SELECT r.value->>'id', r.value->>'job', r.value->>'tenant', r.value->>'stage', CAST(r.value->>'part' AS BIGINT),
	r.value->>'parent', CAST(r.value->>'is_first' AS BIGINT), CAST(r.value->>'is_join' AS BIGINT), r.value->>'queue',
	r.value->>'dlq', CAST(r.value->>'fifo' AS BIGINT), r.value->>'state', CAST(r.value->>'emission' AS BIGINT),
	CAST(r.value->>'emitted_at' AS BIGINT), r.value->>'input', r.value->>'trace', CAST(r.value->>'emitted_at' AS BIGINT)
FROM rows($1) r

-- name: insert_attempts
INSERT INTO attempt (id, step, job, emission, worker, outcome, due_at, claimed_at, lease_us)
SELECT r.value->>'id', r.value->>'step', r.value->>'job', CAST(r.value->>'emission' AS BIGINT), r.value->>'worker', 'running',
	CAST(r.value->>'due_at' AS BIGINT), CAST(r.value->>'claimed_at' AS BIGINT), CAST(r.value->>'lease_us' AS BIGINT)
FROM rows($1) r

-- name: close_attempts
UPDATE attempt SET
	outcome = r.value->>'outcome',
	reason = r.value->>'reason',
	counted = CAST(r.value->>'counted' AS BIGINT),
	garbage = CAST(r.value->>'garbage' AS BIGINT),
	closed_at = CAST(r.value->>'closed_at' AS BIGINT),
	received_at = CAST(r.value->>'received_at' AS BIGINT),
	started_at = CAST(r.value->>'started_at' AS BIGINT),
	ended_at = CAST(r.value->>'ended_at' AS BIGINT),
	provider_wait = CAST(r.value->>'provider_wait' AS BIGINT),
	tools = r.value->>'tools'
FROM rows($1) r WHERE match(attempt, r, $1)

-- name: insert_outbox
INSERT INTO outbox (id, token, ready_at, due_at, not_before, queue, fifo, grp, dedup, body, tenant, attributes, step, created_at)
SELECT r.value->>'id', r.value->>'token', CAST(r.value->>'ready_at' AS BIGINT), CAST(r.value->>'due_at' AS BIGINT),
	CAST(r.value->>'not_before' AS BIGINT), r.value->>'queue', CAST(r.value->>'fifo' AS BIGINT), r.value->>'grp', r.value->>'dedup',
	r.value->>'body', r.value->>'tenant', r.value->>'attributes', r.value->>'step', CAST(r.value->>'created_at' AS BIGINT)
FROM rows($1) r

-- name: insert_entry
INSERT INTO account_entry (id, tenant, job, kind, once, amount, note, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now_us())
ON CONFLICT (once) DO NOTHING

-- name: job_ended
UPDATE account SET in_flight = in_flight - 1, balance = balance + $2 WHERE tenant = $1

-- name: job_reopened
UPDATE account SET in_flight = in_flight + 1 WHERE tenant = $1

-- name: job_has_attempts
SELECT COUNT(*) FROM attempt WHERE job = $1

-- name: clock
SELECT now_us()
