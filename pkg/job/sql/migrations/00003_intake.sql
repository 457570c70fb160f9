-- Jobs and parts enter their queues through a window per tenant; sheets of jobs are imported row by row.

-- +goose Up
ALTER TABLE account ADD COLUMN waiting BIGINT NOT NULL DEFAULT 0; -- of those in flight: what has not entered a queue yet
ALTER TABLE account ADD COLUMN entered_at BIGINT NOT NULL DEFAULT 0; -- when one of its jobs that had waited last did
ALTER TABLE step ADD COLUMN window_size BIGINT NOT NULL DEFAULT 0; -- of a first step or a part: what its route allows a tenant; 0: no limit

-- A held step has a phase of its own, 3: state is in no index, so that a claim needs no new index entries.
UPDATE step SET phase = 3 WHERE state = 'held';
UPDATE account SET waiting = (SELECT COUNT(*) FROM job j WHERE j.tenant = account.tenant AND j.state = 'waiting');

DROP INDEX job_waiting;
CREATE INDEX step_held ON step (tenant, queue, parent, part) WHERE phase = 3 AND part >= 0;
CREATE INDEX step_parts ON step (tenant, queue) WHERE phase = 1 AND part >= 0;

ALTER TABLE import ADD COLUMN name TEXT NOT NULL DEFAULT ''; -- of the file
ALTER TABLE import ADD COLUMN folder TEXT NOT NULL DEFAULT ''; -- what sources that are local files are relative to
ALTER TABLE import ADD COLUMN format TEXT NOT NULL DEFAULT ''; -- what the sheet is; empty until it has been read
ALTER TABLE import ADD COLUMN sentence TEXT NOT NULL DEFAULT ''; -- with code: why it ended as it did, or what it waits for
ALTER TABLE import ADD COLUMN notice TEXT NOT NULL DEFAULT '';
ALTER TABLE import ADD COLUMN accepted BIGINT NOT NULL DEFAULT 0; -- rows
ALTER TABLE import ADD COLUMN refused BIGINT NOT NULL DEFAULT 0;
CREATE INDEX import_open ON import (tenant, id) WHERE ended_at = 0;

ALTER TABLE import_row ADD COLUMN kind TEXT NOT NULL DEFAULT ''; -- of the value that was refused
ALTER TABLE import_row ADD COLUMN source TEXT NOT NULL DEFAULT ''; -- the object that the row's source has become
CREATE INDEX import_row_refused ON import_row (import, sheet, row_no) WHERE state = 'refused';
