-- name: oldest
SELECT s.stage, now_us() - MIN(CASE WHEN s.not_before > s.emitted_at THEN s.not_before ELSE s.emitted_at END)
FROM step s WHERE s.phase = 1 AND s.state = 'queued' AND s.not_before <= now_us()
GROUP BY s.stage

-- name: oldest_dead
SELECT s.stage, now_us() - MIN(s.ended_at) FROM step s WHERE s.phase = 2
GROUP BY s.stage

-- name: retrying
SELECT s.stage, COUNT(*) FROM step s WHERE s.phase = 1 AND s.state = 'queued' AND s.not_before > now_us()
GROUP BY s.stage

-- Jobs that have not ended, by the state that a person sees: each has that of its liveliest step, 1 running, 2 retrying, 3 awaiting,
-- 4 paused, 5 queued. Jobs that wait for capacity, 0, are counted in their accounts.
-- name: open_jobs
SELECT liveliest.rank, CAST(COUNT(*) AS BIGINT) FROM (
	SELECT MIN(seen.rank) AS rank FROM (
		SELECT s.job, CASE
			WHEN s.state = 'running' THEN 1
			WHEN EXISTS (SELECT 1 FROM pause p WHERE p.stage IN (s.stage, 'all') AND (p.until = 0 OR p.until > (SELECT now_us()))) THEN 4
			WHEN s.not_before > (SELECT now_us()) THEN 2
			ELSE 5 END AS rank
		FROM step s WHERE s.phase = 1
		UNION ALL
		SELECT s.job, 5 FROM step s WHERE s.phase = 3 AND s.part >= 0
		UNION ALL
		SELECT s.job, 3 FROM await w JOIN step s ON s.id = w.step WHERE w.state = 'parked'
	) seen GROUP BY seen.job HAVING (SELECT j.state FROM job j WHERE j.id = seen.job) = 'active'
) liveliest GROUP BY liveliest.rank
UNION ALL
SELECT 0, CAST(COALESCE(SUM(account.waiting), 0) AS BIGINT) FROM account
