-- Jobs and parts enter their queues through a window per tenant.

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
