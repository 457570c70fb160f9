-- name: add_upload
INSERT INTO upload (folder, at) VALUES ($1, now_us())
ON CONFLICT (folder) DO UPDATE SET at = excluded.at

-- name: take_upload
DELETE FROM upload WHERE folder = $1 AND at > 0

-- name: idle_uploads
SELECT folder FROM upload WHERE at < (SELECT now_us()) - $1 ORDER BY at LIMIT $2

-- name: condemn_upload
UPDATE upload SET at = 0 WHERE folder = $1

-- name: drop_upload
DELETE FROM upload WHERE folder = $1 AND at = 0

-- Attempts whose objects may be removed: closed unpublished for longer than any lease can last. What a provider is still
-- asked about may be needed.
-- name: garbage
SELECT a.id, a.job, s.stage FROM attempt a JOIN step s ON s.id = a.step
WHERE a.garbage = 1 AND a.closed_at < (SELECT now_us()) - $1 AND s.state <> 'awaiting'
ORDER BY a.id LIMIT $2

-- name: collected
UPDATE attempt SET garbage = 0 WHERE id IN ids($1)
