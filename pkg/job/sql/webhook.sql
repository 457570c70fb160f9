-- name: set_webhook
UPDATE job SET webhook = $2 WHERE id = $1

-- name: insert_webhooks
INSERT INTO webhook (id, tenant, job, url, state, body, ready_at, created_at)
SELECT r.id, j.tenant, j.id, j.webhook, 'pending', r.body, now_us(), now_us()
FROM records($1: id text, job text, body text) r JOIN job j ON j.id = r.job WHERE j.webhook <> ''

-- name: webhook_due
SELECT EXISTS (SELECT 1 FROM webhook WHERE ready_at > 0 AND ready_at <= (SELECT now_us()))

-- A tenant whose receiver is slow has a few under way and the others' turn comes. $1 lease, $2 of one tenant, $3 in all.
-- name: take_webhooks
UPDATE webhook SET ready_at = now_us() + $1
WHERE id IN (
	SELECT due.id FROM (
		SELECT w.id, w.ready_at, ROW_NUMBER() OVER (PARTITION BY w.tenant ORDER BY w.ready_at, w.id) AS turn
		FROM webhook w WHERE w.ready_at > 0 AND w.ready_at <= (SELECT now_us())
	) due WHERE due.turn <= $2 ORDER BY due.ready_at LIMIT $3
)
RETURNING id, tenant, url, body, failures, ready_at

-- name: settle_webhook
UPDATE webhook SET state = $3, failures = $4, ready_at = CASE WHEN CAST($5 AS BIGINT) > 0 THEN now_us() + CAST($5 AS BIGINT) ELSE 0 END
WHERE id = $1 AND ready_at = $2

-- name: webhooks
SELECT w.id, w.state, w.failures, w.ready_at, w.created_at FROM webhook w WHERE w.job = $2 AND w.tenant = $1 ORDER BY w.id

-- name: forget_webhooks
DELETE FROM webhook WHERE created_at < (SELECT now_us()) - $1 AND ready_at = 0

-- name: webhook_secrets
SELECT secret FROM webhook_secret WHERE tenant = $1 AND (expires_at = 0 OR expires_at > now_us()) ORDER BY created_at DESC, expires_at

-- name: make_webhook_secret
INSERT INTO webhook_secret (tenant, expires_at, secret, created_at) VALUES ($1, 0, $2, now_us()) ON CONFLICT (tenant, expires_at) DO NOTHING

-- name: retire_webhook_secret
UPDATE webhook_secret SET expires_at = now_us() + $2 WHERE tenant = $1 AND expires_at = 0

-- name: forget_webhook_secrets
DELETE FROM webhook_secret WHERE expires_at > 0 AND expires_at < (SELECT now_us()) - $1
