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
