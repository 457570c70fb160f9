-- name: open_steps
SELECT stage, CAST(COUNT(*) AS BIGINT) FROM step WHERE phase = 1 GROUP BY stage

-- name: newest_executions
SELECT s.stage, s.job, a.ended_at - a.started_at
FROM (SELECT step, started_at, ended_at, outcome FROM attempt ORDER BY id DESC LIMIT $1) a JOIN step s ON s.id = a.step
WHERE a.outcome = 'done' AND a.started_at > 0
