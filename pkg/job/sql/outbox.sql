-- A token is known to nobody but the sender that leased rows by it.
-- name: delete_sent
DELETE FROM outbox WHERE id IN ids($1) AND token IN ids($2)

-- name: send_failed
UPDATE outbox SET
	failures = outbox.failures + 1,
	token = '',
	ready_at = now_us() + (CASE WHEN outbox.failures < 6 AND CAST($2 AS BIGINT) * (1 << CAST(outbox.failures AS INTEGER)) < CAST($3 AS BIGINT)
		THEN CAST($2 AS BIGINT) * (1 << CAST(outbox.failures AS INTEGER)) ELSE CAST($3 AS BIGINT) END)
FROM records($1: id text, token text) r WHERE outbox.id = r.id AND outbox.token = r.token

-- name: outbox_due
SELECT EXISTS (SELECT 1 FROM outbox WHERE ready_at <= (SELECT now_us()))

-- A row waits for an earlier one of its group that has failed and rests.
-- name: take_due
UPDATE outbox SET token = $1, ready_at = now_us() + CAST($2 AS BIGINT)
WHERE id IN (
	SELECT o.id FROM outbox o
	WHERE o.ready_at <= (SELECT now_us())
		AND (o.fifo = 0 OR NOT EXISTS (
			SELECT 1 FROM outbox e
			WHERE e.failures > 0 AND e.queue = o.queue AND e.grp = o.grp AND e.id < o.id AND e.ready_at > (SELECT now_us())
		))
	ORDER BY o.ready_at LIMIT $3
	FOR UPDATE OF o SKIP LOCKED
)
RETURNING id, token, due_at, not_before, queue, fifo, grp, dedup, body, tenant, attributes, now_us()

-- name: outbox_lag
SELECT COALESCE(MAX(now_us() - due_at), 0) FROM (SELECT due_at FROM outbox ORDER BY ready_at LIMIT 1000) AS soonest
