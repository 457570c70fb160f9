-- Rows of an import that failed wait for their next try behind all others; what an import has stored goes some time after its end.

-- +goose Up
ALTER TABLE import_row ADD COLUMN ready_at BIGINT NOT NULL DEFAULT 0; -- not before
ALTER TABLE import_row ADD COLUMN tries BIGINT NOT NULL DEFAULT 0; -- that failed
DROP INDEX import_row_pending;
CREATE INDEX import_row_pending ON import_row (import, ready_at, sheet, row_no) WHERE state = 'pending';

ALTER TABLE upload ADD COLUMN import TEXT NOT NULL DEFAULT ''; -- that needs it until its end; empty: none
INSERT INTO upload (folder, at, import)
SELECT substr(object, 1, length(object) - 6), MIN(created_at), MAX(id) FROM import WHERE object LIKE 'imports/%/sheet' GROUP BY object
ON CONFLICT (folder) DO NOTHING;
