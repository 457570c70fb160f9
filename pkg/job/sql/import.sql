-- Imports: a sheet of jobs, read row by row and settled row by row.

-- name: insert_import
INSERT INTO import (id, tenant, state, object, name, folder, webhook, created_at) VALUES ($1, $2, 'pending', $3, $4, $5, $6, now_us())

-- name: import
SELECT id, tenant, name, state, code, sentence, notice, format, row_count, accepted, refused, created_at, ended_at
FROM import WHERE tenant = $1 AND id = $2

-- name: imports
SELECT id, tenant, name, state, code, sentence, notice, format, row_count, accepted, refused, created_at, ended_at
FROM import WHERE tenant = $1 AND id < $2
ORDER BY id DESC LIMIT $3

-- name: open_imports
SELECT i.id, i.tenant, i.state, i.object, i.folder, i.webhook FROM import i
WHERE i.ended_at = 0 AND NOT EXISTS (SELECT 1 FROM import o WHERE o.ended_at = 0 AND o.tenant = i.tenant AND o.id < i.id)
ORDER BY i.tenant, i.id

-- name: lock_import
SELECT state FROM import WHERE id = $1 FOR UPDATE

-- name: insert_import_rows
INSERT INTO import_row (import, sheet, row_no, state, input, column_no, kind, code, sentence)
SELECT CAST($1 AS TEXT), r.sheet, r.row_no, r.state, r.input, r.column_no, r.kind, r.code, r.sentence
FROM records($2:
	sheet text, row_no bigint, state text, input text, column_no bigint, kind text, code text, sentence text
) r WHERE 1 = 1
ON CONFLICT (import, sheet, row_no) DO NOTHING

-- name: add_import_rows
UPDATE import SET row_count = row_count + $2, refused = refused + $3 WHERE id = $1

-- name: import_read
UPDATE import SET state = 'running', format = $2, notice = $3, code = '', sentence = '' WHERE id = $1 AND state = 'pending'

-- name: drop_import_rows
DELETE FROM import_row WHERE import = $1

-- name: fail_import
UPDATE import SET state = 'failed', code = $2, sentence = $3, row_count = 0, refused = 0, ended_at = now_us() WHERE id = $1 AND state = 'pending'

-- name: import_waits
UPDATE import SET code = $2, sentence = $3 WHERE id = $1 AND ended_at = 0 AND code <> $2

-- name: import_rows
SELECT sheet, row_no, state, input, job, column_no, kind, code, sentence, source, tries FROM import_row
WHERE import = $1 AND (sheet, row_no) > ($2, $3)
ORDER BY sheet, row_no LIMIT $4

-- name: refused_rows
SELECT sheet, row_no, state, input, job, column_no, kind, code, sentence, source, tries FROM import_row
WHERE import = $1 AND state = 'refused' AND (sheet, row_no) > ($2, $3)
ORDER BY sheet, row_no LIMIT $4

-- Rows that were not tried yet come first.
-- name: pending_rows
SELECT sheet, row_no, state, input, job, column_no, kind, code, sentence, source, tries FROM import_row
WHERE import = $1 AND state = 'pending' AND ready_at <= (SELECT now_us())
ORDER BY ready_at, sheet, row_no LIMIT $2

-- How long it is until the next row is to be tried.
-- name: next_row
SELECT ready_at - (SELECT now_us()) FROM import_row
WHERE import = $1 AND state = 'pending'
ORDER BY ready_at LIMIT 1

-- name: postpone_row
UPDATE import_row SET tries = tries + 1, ready_at = (SELECT now_us()) + CAST($4 AS BIGINT)
WHERE import = $1 AND sheet = $2 AND row_no = $3 AND state = 'pending'

-- name: row_source
UPDATE import_row SET source = $4 WHERE import = $1 AND sheet = $2 AND row_no = $3

-- name: read_row
SELECT state, job FROM import_row WHERE import = $1 AND sheet = $2 AND row_no = $3

-- name: accept_row
UPDATE import_row SET state = 'accepted', job = $4 WHERE import = $1 AND sheet = $2 AND row_no = $3 AND state = 'pending'

-- name: row_accepted
UPDATE import SET accepted = accepted + 1, code = '', sentence = '' WHERE id = $1

-- name: refuse_row
UPDATE import_row SET state = 'refused', column_no = $4, kind = $5, code = $6, sentence = $7
WHERE import = $1 AND sheet = $2 AND row_no = $3 AND state = 'pending'

-- name: row_refused
UPDATE import SET refused = refused + 1 WHERE id = $1

-- name: refuse_pending_rows
UPDATE import_row SET state = 'refused', code = $2, sentence = $3 WHERE import = $1 AND state = 'pending'

-- name: cancel_import
UPDATE import SET state = 'cancelled', code = $3, sentence = $4, refused = refused + $2, ended_at = now_us() WHERE id = $1

-- Nothing ends while a row is unsettled.
-- name: end_import
UPDATE import SET
	state = CASE WHEN refused = 0 THEN 'completed' WHEN accepted = 0 THEN 'failed' ELSE 'completed_with_refusals' END,
	code = CASE WHEN accepted = 0 THEN $2 ELSE '' END,
	sentence = CASE WHEN accepted = 0 THEN $3 ELSE '' END,
	ended_at = now_us()
WHERE id = $1 AND state = 'running' AND accepted + refused = row_count
