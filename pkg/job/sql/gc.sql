-- name: add_upload
INSERT INTO upload (folder, at) VALUES ($1, now_us())
ON CONFLICT (folder) DO UPDATE SET at = excluded.at

-- name: keep_upload
INSERT INTO upload (folder, at) VALUES ($1, $2)
ON CONFLICT (folder) DO UPDATE SET at = excluded.at

-- name: take_upload
DELETE FROM upload WHERE folder = $1 AND at > 0

-- What belongs to an import may be needed until its end.
-- name: idle_uploads
SELECT u.folder FROM upload u LEFT JOIN import i ON i.id = u.import
WHERE u.at < (SELECT now_us()) - $1 AND (u.import = '' OR i.ended_at > 0 AND i.ended_at < (SELECT now_us()) - $1)
ORDER BY u.at, u.folder LIMIT $2 OFFSET $3

-- name: add_import_upload
INSERT INTO upload (folder, at, import) VALUES ($1, now_us(), $2)
ON CONFLICT (folder) DO UPDATE SET at = excluded.at, import = excluded.import

-- name: condemn_upload
UPDATE upload SET at = 0 WHERE folder = $1

-- name: drop_upload
DELETE FROM upload WHERE folder = $1 AND at = 0

-- Attempts whose objects may be removed: closed unpublished for longer than any lease can last. Those of a step that goes on
-- are kept, since a provider may still be asked about them, and so are those of a step with a finished effect, whose stored
-- result may name them.
-- name: garbage
SELECT a.id, a.job, s.stage FROM attempt a JOIN step s ON s.id = a.step
WHERE a.garbage = 1 AND a.closed_at < (SELECT now_us()) - $1 AND s.phase <> 1 AND s.state <> 'awaiting'
	AND NOT EXISTS (SELECT 1 FROM effect e WHERE e.step = s.id AND e.state = 'done')
ORDER BY a.id LIMIT $2 OFFSET $3

-- name: collected
UPDATE attempt SET garbage = 0 WHERE id IN ids($1)
