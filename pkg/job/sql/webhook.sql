-- name: set_webhook
UPDATE job SET webhook = $2 WHERE id = $1

-- name: insert_webhooks
INSERT INTO webhook (id, tenant, job, url, state, body, ready_at, created_at)
SELECT r.id, j.tenant, j.id, j.webhook, 'pending', r.body, now_us(), now_us()
FROM records($1: id text, job text, body text) r JOIN job j ON j.id = r.job WHERE j.webhook <> ''

-- name: webhook_due
SELECT EXISTS (SELECT 1 FROM webhook WHERE ready_at > 0 AND ready_at <= (SELECT now_us()))

-- Of a tenant a few are under way at once, and none more until those have come back: a slow receiver holds up nobody else's.
-- $1 lease, $2 of one tenant, $3 in all, $4 tenants with some under way. Of two that take at once
-- the second finds that what it has seen is taken.
-- name: take_webhooks
UPDATE webhook SET ready_at = now_us() + $1
WHERE id IN (
	SELECT due.id FROM (
		SELECT few.id, few.ready_at, ROW_NUMBER() OVER (PARTITION BY few.tenant ORDER BY few.ready_at, few.id) AS turn
		FROM (
			SELECT h.id, h.tenant, h.ready_at FROM webhook h
			WHERE h.ready_at > 0 AND h.ready_at <= (SELECT now_us()) AND NOT (h.tenant IN ids($4))
			ORDER BY h.ready_at LIMIT 1000
		) few
	) due WHERE due.turn <= $2 ORDER BY due.ready_at LIMIT $3
) AND ready_at > 0 AND ready_at <= now_us()
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
