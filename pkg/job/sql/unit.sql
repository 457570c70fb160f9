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

-- The clock is read outside the part that waits for locks, so that it is later than every wait of its row. Only a claim needs
-- the input, which may be long: $2 is 1 for those. Whoever decides about more than steps has FOR UPDATE OF t, j, s put in.
-- name: lock_steps
SELECT locked.*, now_us() FROM (
	SELECT
		s.id, s.job, s.tenant, s.stage, s.part, s.parent, s.parts_left, s.is_first, s.is_join, s.queue, s.dlq, s.fifo,
		s.state, s.code, s.sentence, s.emission, s.emitted_at, s.not_before, s.token, s.lease_until, s.attempt,
		s.attempts, s.crashes, s.rounds, s.worker, CASE WHEN $2 = 1 THEN s.input ELSE '' END AS input, s.event, s.trace, s.ended_at,
		j.target, j.version, j.state AS job_state, j.code AS job_code, j.sentence AS job_sentence, j.gaps, j.price, j.recovered,
		j.ended_at AS job_ended_at,
		t.name, t.latest, t.ingested, t.current_version, t.current_job
	FROM step s JOIN job j ON j.id = s.job JOIN target t ON t.id = j.target
	WHERE s.id IN ids($1)
	ORDER BY j.target, s.job, s.id
	FOR UPDATE OF s
) locked

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

-- Most changes are of two kinds, and cost less than half when no other column is written.
-- name: claim_steps
UPDATE step SET
	state = 'running',
	phase = 1,
	token = r.token,
	lease_until = r.lease_until,
	attempt = r.attempt,
	worker = r.worker,
	rev = step.rev + 1
FROM records($1: id text, token text, lease_until bigint, attempt text, worker text) r WHERE step.id = r.id

-- name: finish_steps
UPDATE step SET
	state = 'done',
	phase = 0,
	token = '',
	lease_until = 0,
	attempts = r.attempts,
	output = r.output,
	ended_at = r.ended_at,
	rev = step.rev + 1
FROM records($1: id text, attempts bigint, output text, ended_at bigint) r WHERE step.id = r.id

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

-- name: save_targets
UPDATE target SET
	latest = r.latest,
	ingested = r.ingested,
	current_version = r.current_version,
	current_job = r.current_job
FROM records($1: id text, latest bigint, ingested bigint, current_version bigint, current_job text) r WHERE target.id = r.id

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

-- name: insert_attempts
INSERT INTO attempt (id, step, job, emission, worker, outcome, due_at, claimed_at, lease_us)
SELECT r.id, r.step, r.job, r.emission, r.worker, 'running',
	r.due_at, r.claimed_at, r.lease_us
FROM records($1:
	id text, step text, job text, emission bigint, worker text, due_at bigint, claimed_at bigint,
	lease_us bigint
) r

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

-- name: insert_outbox
INSERT INTO outbox (id, token, ready_at, due_at, not_before, queue, fifo, grp, dedup, body, tenant, attributes, step, created_at)
SELECT r.id, r.token, r.ready_at, r.due_at,
	r.not_before, r.queue, r.fifo, r.grp, r.dedup,
	r.body, r.tenant, r.attributes, r.step, r.created_at
FROM records($1:
	id text, token text, ready_at bigint, due_at bigint, not_before bigint, queue text, fifo bigint,
	grp text, dedup text, body text, tenant text, attributes text, step text, created_at bigint
) r

-- name: insert_entry
INSERT INTO account_entry (id, tenant, job, kind, once, amount, note, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now_us())
ON CONFLICT (once) DO NOTHING

-- What is given back of a charge of the day, $4, was not spent on it.
-- name: job_ended
UPDATE account SET in_flight = in_flight - 1, waiting = waiting - $3, balance = balance + $2,
	spent = spent - CASE WHEN day = $4 THEN $2 ELSE 0 END
WHERE tenant = $1

-- name: job_reopened
UPDATE account SET in_flight = in_flight + 1 WHERE tenant = $1

-- name: job_has_attempts
SELECT COUNT(*) FROM attempt WHERE job = $1 AND reason <> 'never_run'

-- name: clock
SELECT now_us()
