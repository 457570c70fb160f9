-- name: insert_key
INSERT INTO api_key (id, tenant, hash, scopes, name, per_minute, created_at, expires_at, lifetime)
SELECT $1, a.tenant, $3, $4, $5, $6, now_us(), CASE WHEN CAST($7 AS BIGINT) = 0 THEN 0 ELSE now_us() + CAST($7 AS BIGINT) END, CAST($7 AS BIGINT)
FROM account a WHERE a.tenant = $2

-- name: key
SELECT id, tenant, hash, scopes, name, per_minute, created_at, expires_at, revoked_at, used_at, lifetime, now_us() FROM api_key WHERE id = $1

-- name: keys
SELECT id, tenant, hash, scopes, name, per_minute, created_at, expires_at, revoked_at, used_at, lifetime, now_us() FROM api_key
WHERE $1 = '' OR tenant = $1 ORDER BY id

-- name: any_key
SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM api_key LIMIT 1) k

-- The overlap only ever shortens a life. $2 microseconds from now.
-- name: expire_key
UPDATE api_key SET expires_at = now_us() + CAST($2 AS BIGINT)
WHERE id = $1 AND (expires_at = 0 OR expires_at > now_us() + CAST($2 AS BIGINT))

-- name: revoke_key
UPDATE api_key SET revoked_at = CASE WHEN revoked_at = 0 THEN now_us() ELSE revoked_at END WHERE id = $1

-- name: key_used
UPDATE api_key SET used_at = now_us() WHERE id = $1

-- name: create_account
INSERT INTO account (tenant, unlimited, max_in_flight, daily_cap, weight, created_at) VALUES ($1, $2, $3, $4, $5, now_us())
ON CONFLICT (tenant) DO NOTHING

-- A negative value leaves what is there.
-- name: change_limits
UPDATE account SET
	unlimited = CASE WHEN CAST($2 AS BIGINT) < 0 THEN unlimited ELSE CAST($2 AS BIGINT) END,
	max_in_flight = CASE WHEN CAST($3 AS BIGINT) < 0 THEN max_in_flight ELSE CAST($3 AS BIGINT) END,
	daily_cap = CASE WHEN CAST($4 AS BIGINT) < 0 THEN daily_cap ELSE CAST($4 AS BIGINT) END,
	weight = CASE WHEN CAST($5 AS BIGINT) < 0 THEN weight ELSE CAST($5 AS BIGINT) END
WHERE tenant = $1

-- name: accounts
SELECT tenant, balance, unlimited, in_flight, waiting, max_in_flight, daily_cap, day, spent, weight, now_us() FROM account ORDER BY tenant

-- name: entries
SELECT id, job, kind, amount, note, at FROM account_entry WHERE tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3
