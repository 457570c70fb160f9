-- The numbers of jobs, and, marked by a number below zero, keys that have ended.
-- name: watch
SELECT j.id, j.tenant, j.rev + CAST((SELECT COALESCE(SUM(s.rev), 0) FROM step s WHERE s.job = j.id) AS BIGINT)
FROM job j WHERE j.id IN ids($1)
UNION ALL
SELECT k.id, k.tenant, CAST(-1 AS BIGINT)
FROM api_key k WHERE k.id IN ids($2) AND (k.revoked_at > 0 OR k.expires_at > 0 AND k.expires_at <= now_us())

-- name: jobs_by_id
SELECT j.id, j.tenant, t.name, j.version, j.state, j.code, j.sentence, j.gaps, j.result, j.recovered, j.rev, j.created_at, j.ended_at,
	t.current_job
FROM job j JOIN target t ON t.id = j.target
WHERE j.id IN ids($1)
