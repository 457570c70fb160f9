-- What waits for room and what may enter a queue.

-- Tenants with jobs that wait, with the window that the oldest of them is to pass.
-- name: waiting_tenants
SELECT account.tenant, account.weight, account.in_flight - account.waiting, account.waiting, account.entered_at, COALESCE((
	SELECT s.window_size FROM step s
	WHERE s.job = (SELECT MIN(w.id) FROM job w WHERE w.tenant = account.tenant AND w.state = 'waiting') AND s.is_first = 1
), 0)
FROM account WHERE account.waiting > 0

-- name: waiting_jobs
SELECT id FROM job WHERE tenant = $1 AND state = 'waiting' ORDER BY id LIMIT $2

-- name: jobs_entered
UPDATE account SET waiting = waiting - $2, entered_at = $3 WHERE tenant = $1

-- name: held_lanes
SELECT DISTINCT tenant, queue FROM step WHERE phase = 3 AND part >= 0

-- Parts of a tenant that have entered a queue and have not left it, whether others wait already, and the tenant's weight.
-- name: parts_under_way
SELECT
	(SELECT COUNT(*) FROM step s WHERE s.phase = 1 AND s.part >= 0 AND s.tenant = $1 AND s.queue = $2),
	EXISTS (SELECT 1 FROM step s WHERE s.phase = 3 AND s.part >= 0 AND s.tenant = $1 AND s.queue = $2),
	a.weight
FROM account a WHERE a.tenant = $1

-- name: held_parts
SELECT s.id, s.window_size FROM step s
WHERE s.phase = 3 AND s.part >= 0 AND s.tenant = $1 AND s.queue = $2
ORDER BY s.parent, s.part LIMIT $3
