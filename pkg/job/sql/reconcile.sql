-- name: lead
INSERT INTO lease (name, holder, until) VALUES ('sweeper', $1, now_us() + CAST($2 AS BIGINT))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until < now_us()

-- name: ping
INSERT INTO lease (name, holder, until) VALUES ('ping', $1, now_us())
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until

-- name: resign
DELETE FROM lease WHERE name = 'sweeper' AND holder = $1

-- Queues of steps that a message must stand for. Distinct over a partial index of what is open.
-- name: open_queues
SELECT DISTINCT queue FROM step WHERE phase = 1

-- Steps without a live owner, without an unsent message, emitted longer than $2 ago and due, in the order of their messages. Steps of
-- paused stages have messages that nobody receives, so their queue is not empty.
-- name: orphans
SELECT s.id FROM step s
WHERE s.phase = 1 AND s.queue = $1 AND s.emitted_at < (SELECT now_us()) - CAST($2 AS BIGINT)
	AND (s.state = 'queued' AND s.not_before <= (SELECT now_us()) OR s.state = 'running' AND s.lease_until <= (SELECT now_us()))
	AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.step = s.id)
ORDER BY s.emitted_at LIMIT $3

-- name: unowned
SELECT s.id FROM step s INDEXED BY step_open WHERE s.phase = 1 AND s.id > $1
	AND NOT (s.state = 'running' AND s.lease_until > (SELECT now_us()))
	AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.step = s.id)
ORDER BY s.id LIMIT $2

-- name: forget_keys
DELETE FROM idempotency WHERE at < (SELECT now_us()) - $1

-- name: forget_workers
DELETE FROM worker WHERE seen_at < (SELECT now_us()) - $1

-- name: forget_events
DELETE FROM inbox WHERE at < (SELECT now_us()) - $1
