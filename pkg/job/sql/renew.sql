-- One statement for all claims of a process, in the order in which every other transaction locks steps.
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
RETURNING step.token

-- name: states
SELECT s.id, s.state FROM step s WHERE s.id IN ids($1)

-- name: progress
UPDATE step SET progress = $3, rev = rev + 1 WHERE id = $1 AND token = $2 AND state = 'running'

-- name: report_worker
INSERT INTO worker (id, stage, status, seen_at) VALUES ($1, $2, $3, now_us())
ON CONFLICT (id) DO UPDATE SET stage = excluded.stage, status = excluded.status, seen_at = excluded.seen_at

-- name: workers
SELECT status, seen_at FROM worker WHERE seen_at > (SELECT now_us()) - $1 ORDER BY stage, id

-- name: pause
INSERT INTO pause (stage, reason, who, at, until) VALUES ($1, $2, $3, now_us(), $4)
ON CONFLICT (stage) DO UPDATE SET reason = excluded.reason, who = excluded.who, at = excluded.at, until = excluded.until

-- name: resume
DELETE FROM pause WHERE stage = $1

-- name: pauses
SELECT stage, reason, who, at, until FROM pause WHERE until = 0 OR until > (SELECT now_us()) ORDER BY stage

-- name: audit
INSERT INTO audit (id, at, who, action, object, detail) VALUES ($1, now_us(), $2, $3, $4, $5)
