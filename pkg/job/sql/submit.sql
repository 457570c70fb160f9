-- name: take_idempotency_key
INSERT INTO idempotency (tenant, idem_key, body_hash, job, at) VALUES ($1, $2, $3, $4, now_us())
ON CONFLICT (tenant, idem_key) DO NOTHING

-- name: read_idempotency_key
SELECT body_hash, job FROM idempotency WHERE tenant = $1 AND idem_key = $2

-- name: point_idempotency_key
UPDATE idempotency SET job = $3 WHERE tenant = $1 AND idem_key = $2

-- name: drop_idempotency_key
DELETE FROM idempotency WHERE tenant = $1 AND idem_key = $2

-- name: ensure_account
INSERT INTO account (tenant, unlimited, created_at) VALUES ($1, 1, now_us()) ON CONFLICT (tenant) DO NOTHING

-- name: read_account
SELECT balance, unlimited, in_flight, max_in_flight, daily_cap, day, spent, waiting, weight FROM account WHERE tenant = $1

-- name: in_flight
SELECT CAST(COALESCE(SUM(in_flight), 0) AS BIGINT) FROM account

-- Jobs that have entered a queue and have not ended.
-- name: under_way
SELECT CAST(COALESCE(SUM(in_flight - waiting), 0) AS BIGINT) FROM account

-- The whole admission: a place in flight, the money, and the day's cap, or nothing. $2 price, $3 today.
-- name: admit
UPDATE account SET
	in_flight = in_flight + 1,
	balance = balance - $2,
	spent = CASE WHEN day = $3 THEN spent ELSE 0 END + $2,
	day = $3
WHERE tenant = $1
	AND (max_in_flight = 0 OR in_flight < max_in_flight)
	AND (daily_cap = 0 OR CASE WHEN day = $3 THEN spent ELSE 0 END + $2 <= daily_cap)
	AND (unlimited = 1 OR balance >= $2)
RETURNING in_flight - waiting, waiting, weight

-- name: job_waits
UPDATE account SET waiting = waiting + 1 WHERE tenant = $1

-- Makes the target or locks the one that exists, and reads it: the update that changes nothing is what locks and returns.
-- name: lock_target
INSERT INTO target (id, tenant, name, created_at) VALUES ($1, $2, $3, now_us())
ON CONFLICT (tenant, name) DO UPDATE SET name = excluded.name
RETURNING id, name, latest, ingested, current_version, current_job

-- In the order of lock_steps, so that submissions and publications of the same targets wait for each other in one order.
-- name: lock_targets
SELECT t.id FROM records($1: tenant text, name text) r JOIN target t ON t.tenant = r.tenant AND t.name = r.name
ORDER BY t.id FOR UPDATE OF t

-- name: job_of_version
SELECT id, digest FROM job WHERE target = $1 AND version = $2

-- name: insert_job
INSERT INTO job (id, tenant, target, version, digest, state, price, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)

-- name: set_limits
INSERT INTO account (tenant, unlimited, max_in_flight, daily_cap, weight, created_at) VALUES ($1, $2, $3, $4, $5, now_us())
ON CONFLICT (tenant) DO UPDATE SET
	unlimited = excluded.unlimited, max_in_flight = excluded.max_in_flight, daily_cap = excluded.daily_cap, weight = excluded.weight

-- name: add_balance
UPDATE account SET balance = balance + $2 WHERE tenant = $1
