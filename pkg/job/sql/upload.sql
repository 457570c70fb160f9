-- name: insert_upload
INSERT INTO resumable (id, tenant, name, size, sha256, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, now_us(), now_us() + CAST($6 AS BIGINT))

-- name: upload
SELECT id, tenant, name, size, sha256, received, parts, object, expires_at FROM resumable
WHERE tenant = $1 AND id = $2 AND expires_at > now_us()

-- name: append_upload
UPDATE resumable SET received = $2, parts = $3 WHERE id = $1

-- name: finish_upload
UPDATE resumable SET object = $3 WHERE tenant = $1 AND id = $2 AND object = ''

-- name: drop_uploads
DELETE FROM resumable WHERE expires_at <= now_us()
