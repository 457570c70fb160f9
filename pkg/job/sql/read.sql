-- name: job
SELECT j.id, j.tenant, t.name, j.version, j.state, j.code, j.sentence, j.gaps, j.result, j.recovered, j.rev, j.created_at, j.ended_at,
	t.current_job
FROM job j JOIN target t ON t.id = j.target
WHERE j.tenant = $1 AND j.id = $2

-- name: steps
SELECT s.id, s.job, s.stage, s.part, s.state, s.code, s.sentence, s.not_before, s.attempts, s.crashes, s.worker, s.progress, s.rev,
	s.created_at, s.ended_at, now_us()
FROM step s WHERE s.job IN ids($1)
ORDER BY s.job, s.created_at, s.part, s.id

-- name: attempts
SELECT a.id, a.job, a.step, a.worker, a.outcome, a.reason, a.counted, a.due_at, a.claimed_at, a.closed_at, a.started_at, a.ended_at, a.provider_wait, a.tools,
	a.requests, a.input_tokens, a.output_tokens
FROM attempt a WHERE a.job IN ids($1) ORDER BY a.id

-- Lists: $2 the cursor, $3 the limit, $4 the first identifier, $5 and on the filters.
-- name: jobs
SELECT j.id, j.tenant, t.name, j.version, j.state, j.code, j.sentence, j.gaps, j.result, j.recovered, j.rev, j.created_at, j.ended_at,
	t.current_job
FROM job j JOIN target t ON t.id = j.target
WHERE j.tenant = $1 AND j.id < $2 AND j.id >= $4
ORDER BY j.id DESC LIMIT $3

-- name: jobs_in_state
SELECT j.id, j.tenant, t.name, j.version, j.state, j.code, j.sentence, j.gaps, j.result, j.recovered, j.rev, j.created_at, j.ended_at,
	t.current_job
FROM job j INDEXED BY job_state JOIN target t ON t.id = j.target
WHERE j.tenant = $1 AND j.state = $5 AND j.id < $2 AND j.id >= $4
ORDER BY j.id DESC LIMIT $3

-- name: jobs_at_stage
SELECT j.id, j.tenant, t.name, j.version, j.state, j.code, j.sentence, j.gaps, j.result, j.recovered, j.rev, j.created_at, j.ended_at,
	t.current_job
FROM job j INDEXED BY job_state JOIN target t ON t.id = j.target
WHERE j.tenant = $1 AND j.state IN ('waiting', 'active', 'failed') AND j.id < $2 AND j.id >= $4 AND ($6 = '' OR j.state = $6)
	AND EXISTS (SELECT 1 FROM step s WHERE s.job = j.id AND s.stage = $5 AND s.state IN ('held', 'queued', 'running', 'awaiting', 'dead'))
ORDER BY j.id DESC LIMIT $3

-- name: jobs_of_target
SELECT j.id, j.tenant, t.name, j.version, j.state, j.code, j.sentence, j.gaps, j.result, j.recovered, j.rev, j.created_at, j.ended_at,
	t.current_job
FROM job j JOIN target t ON t.id = j.target
WHERE t.tenant = $1 AND t.name = $7 AND j.id < $2 AND j.id >= $4 AND ($6 = '' OR j.state = $6)
	AND ($5 = '' OR EXISTS (SELECT 1 FROM step s WHERE s.job = j.id AND s.stage = $5 AND s.state IN ('held', 'queued', 'running', 'awaiting', 'dead')))
ORDER BY j.id DESC LIMIT $3

-- name: seq
SELECT j.rev + CAST((SELECT COALESCE(SUM(s.rev), 0) FROM step s WHERE s.job = j.id) AS BIGINT) FROM job j WHERE j.tenant = $1 AND j.id = $2

-- name: dead_steps
SELECT s.id, s.job, s.tenant, t.name, j.version, s.stage, s.part, s.dlq, s.code, s.attempts, s.crashes, s.emission, s.rounds, s.trace, s.ended_at,
	CASE WHEN t.ingested > j.version THEN 1 ELSE 0 END
FROM step s JOIN job j ON j.id = s.job JOIN target t ON t.id = j.target
WHERE s.phase = 2 AND s.id > $1 AND ($3 = '' OR s.stage = $3)
ORDER BY s.id LIMIT $2

-- name: dead_step
SELECT s.id, s.job, s.tenant, t.name, j.version, s.stage, s.part, s.dlq, s.code, s.attempts, s.crashes, s.emission, s.rounds, s.trace, s.ended_at,
	CASE WHEN t.ingested > j.version THEN 1 ELSE 0 END
FROM step s JOIN job j ON j.id = s.job JOIN target t ON t.id = j.target
WHERE s.id = $1 AND s.phase = 2

-- name: job_of
SELECT id, tenant FROM job WHERE id = $1 UNION SELECT job, tenant FROM step WHERE id = $1

-- name: executions
SELECT a.started_at, a.ended_at, a.requests, a.input_tokens, a.output_tokens
FROM attempt a JOIN step s ON s.id = a.step
WHERE s.stage = $1 AND a.outcome = 'done' AND a.started_at > 0 AND a.ended_at > a.started_at
ORDER BY a.id DESC LIMIT $2
