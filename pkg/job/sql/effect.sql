-- name: begin_effect
INSERT INTO effect (id, step, name, state, at) VALUES ($1, $2, $3, 'begun', now_us()) ON CONFLICT (step, name) DO NOTHING

-- name: read_effect
SELECT id, state, result FROM effect WHERE step = $1 AND name = $2

-- The first result stays, unless the step's owner has another one.
-- name: end_effect
UPDATE effect SET state = 'done',
	result = CASE WHEN state = 'begun' OR EXISTS (SELECT 1 FROM step s WHERE s.id = $2 AND s.token = $4) THEN $3 ELSE result END
WHERE id = $1 AND step = $2

-- name: open_await
INSERT INTO await (effect, step, state) VALUES ($1, $2, 'open') ON CONFLICT (effect) DO NOTHING

-- name: lock_await
SELECT step, state, deadline FROM await WHERE effect = $1 FOR UPDATE

-- name: park_await
UPDATE await SET state = 'parked', deadline = $3 WHERE effect = $1 AND step = $2

-- name: settle_await
UPDATE await SET state = 'settled', seen = COALESCE((SELECT MAX(i.at) FROM inbox i WHERE i.effect = $1), seen) WHERE effect = $1

-- name: overdue_awaits
SELECT effect FROM await WHERE state = 'parked' AND deadline <= (SELECT now_us()) ORDER BY deadline LIMIT 100

-- name: insert_event
INSERT INTO inbox (provider, event, effect, body, at) VALUES ($1, $2, $3, $4, now_us()) ON CONFLICT (provider, event) DO NOTHING

-- name: unseen_events
SELECT i.body FROM inbox i WHERE i.effect = $1 AND i.at > (SELECT w.seen FROM await w WHERE w.effect = $1) ORDER BY i.at DESC LIMIT 1
