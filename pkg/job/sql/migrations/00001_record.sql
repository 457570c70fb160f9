-- The record. One text for both databases: times are microseconds since 1970 (0: not set), truth values are 0 or
-- 1, JSON is text, and nothing is NULL.

-- +goose Up
CREATE TABLE account (
	tenant        TEXT PRIMARY KEY,
	balance       BIGINT NOT NULL DEFAULT 0, -- the sum of its entries, always
	unlimited     BIGINT NOT NULL DEFAULT 0, -- the balance may go below zero
	in_flight     BIGINT NOT NULL DEFAULT 0, -- jobs that have not ended
	max_in_flight BIGINT NOT NULL DEFAULT 0, -- 0: no limit
	daily_cap     BIGINT NOT NULL DEFAULT 0, -- spent per UTC day; 0: no limit
	day           BIGINT NOT NULL DEFAULT 0, -- days since 1970 that spent belongs to
	spent         BIGINT NOT NULL DEFAULT 0,
	weight        BIGINT NOT NULL DEFAULT 1,
	created_at    BIGINT NOT NULL
);

CREATE TABLE account_entry (
	id     TEXT PRIMARY KEY,
	tenant TEXT NOT NULL,
	job    TEXT NOT NULL, -- empty for grants
	kind   TEXT NOT NULL, -- grant, charge or refund
	once   TEXT NOT NULL, -- job/kind, or the grant's own identifier
	amount BIGINT NOT NULL,
	note   TEXT NOT NULL DEFAULT '',
	at     BIGINT NOT NULL
);
CREATE UNIQUE INDEX account_entry_once ON account_entry (once);
CREATE INDEX account_entry_tenant ON account_entry (tenant, id);

CREATE TABLE idempotency (
	tenant    TEXT NOT NULL,
	idem_key  TEXT NOT NULL,
	body_hash TEXT NOT NULL,
	job       TEXT NOT NULL,
	at        BIGINT NOT NULL,
	PRIMARY KEY (tenant, idem_key)
);
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE target (
	id              TEXT PRIMARY KEY,
	tenant          TEXT NOT NULL,
	name            TEXT NOT NULL,
	latest          BIGINT NOT NULL DEFAULT 0, -- highest version submitted
	ingested        BIGINT NOT NULL DEFAULT 0, -- highest version whose first step has succeeded
	current_version BIGINT NOT NULL DEFAULT 0, -- version of the current result; 0: none
	current_job     TEXT NOT NULL DEFAULT '',
	created_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX target_name ON target (tenant, name);

CREATE TABLE job (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	target     TEXT NOT NULL,
	version    BIGINT NOT NULL,
	digest     TEXT NOT NULL,
	state      TEXT NOT NULL, -- waiting, active, completed, completed_with_gaps, refused, failed, cancelled, superseded
	code       TEXT NOT NULL DEFAULT '',
	sentence   TEXT NOT NULL DEFAULT '',
	gaps       TEXT NOT NULL DEFAULT '[]',
	result     TEXT NOT NULL DEFAULT '',
	price      BIGINT NOT NULL DEFAULT 0,
	recovered  BIGINT NOT NULL DEFAULT 0,
	rev        BIGINT NOT NULL DEFAULT 1,
	created_at BIGINT NOT NULL,
	ended_at   BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX job_version ON job (target, version);
CREATE INDEX job_tenant ON job (tenant, id);
CREATE INDEX job_state ON job (tenant, state, id);
CREATE INDEX job_waiting ON job (id) WHERE state = 'waiting';

CREATE TABLE step (
	id          TEXT PRIMARY KEY,
	job         TEXT NOT NULL,
	tenant      TEXT NOT NULL,
	stage       TEXT NOT NULL,
	part        BIGINT NOT NULL DEFAULT -1,
	parent      TEXT NOT NULL DEFAULT '', -- of a part: the step that fanned out
	parts_left  BIGINT NOT NULL DEFAULT 0, -- of a step that fanned out
	is_first    BIGINT NOT NULL DEFAULT 0,
	is_join     BIGINT NOT NULL DEFAULT 0,
	queue       TEXT NOT NULL,
	dlq         TEXT NOT NULL,
	fifo        BIGINT NOT NULL,
	state       TEXT NOT NULL, -- held, queued, running, awaiting, done, refused, dead, cancelled, superseded
	phase       BIGINT NOT NULL DEFAULT 1, -- 1 a message must stand for it, 2 dead, 0 neither: what the partial indexes look at
	code        TEXT NOT NULL DEFAULT '',
	sentence    TEXT NOT NULL DEFAULT '',
	emission    BIGINT NOT NULL DEFAULT 1,
	emitted_at  BIGINT NOT NULL,
	not_before  BIGINT NOT NULL DEFAULT 0,
	token       TEXT NOT NULL DEFAULT '',
	lease_until BIGINT NOT NULL DEFAULT 0,
	attempt     TEXT NOT NULL DEFAULT '', -- the open one, or the last
	attempts    BIGINT NOT NULL DEFAULT 0, -- counted, in this round
	crashes     BIGINT NOT NULL DEFAULT 0, -- in this round
	rounds      BIGINT NOT NULL DEFAULT 1,
	worker      TEXT NOT NULL DEFAULT '',
	input       TEXT NOT NULL,
	output      TEXT NOT NULL DEFAULT '',
	event       TEXT NOT NULL DEFAULT '', -- what the provider said, for the execution after an await
	trace       TEXT NOT NULL DEFAULT '',
	progress    TEXT NOT NULL DEFAULT '',
	rev         BIGINT NOT NULL DEFAULT 1,
	created_at  BIGINT NOT NULL,
	ended_at    BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX step_once ON step (job, stage, part);
CREATE INDEX step_open ON step (queue, emitted_at) WHERE phase = 1;
CREATE INDEX step_dead ON step (id) WHERE phase = 2;
CREATE INDEX step_part ON step (parent, part) WHERE parent <> '';

CREATE TABLE attempt (
	id            TEXT PRIMARY KEY,
	step          TEXT NOT NULL,
	job           TEXT NOT NULL,
	emission      BIGINT NOT NULL,
	worker        TEXT NOT NULL,
	outcome       TEXT NOT NULL, -- running until it is closed
	reason        TEXT NOT NULL DEFAULT '',
	counted       BIGINT NOT NULL DEFAULT 0,
	due_at        BIGINT NOT NULL, -- when its message was due
	claimed_at    BIGINT NOT NULL,
	lease_us      BIGINT NOT NULL,
	closed_at     BIGINT NOT NULL DEFAULT 0,
	received_at   BIGINT NOT NULL DEFAULT 0, -- these three by the worker's clock
	started_at    BIGINT NOT NULL DEFAULT 0,
	ended_at      BIGINT NOT NULL DEFAULT 0,
	provider_wait BIGINT NOT NULL DEFAULT 0,
	tools         TEXT NOT NULL DEFAULT '[]',
	garbage       BIGINT NOT NULL DEFAULT 0 -- 1: closed unpublished, its objects may still be there
);
CREATE INDEX attempt_job ON attempt (job, id);
CREATE INDEX attempt_garbage ON attempt (closed_at) WHERE garbage = 1;

CREATE TABLE outbox (
	id         TEXT PRIMARY KEY,
	token      TEXT NOT NULL,
	ready_at   BIGINT NOT NULL, -- when the relay may take it: due, and no sender's lease on it
	due_at     BIGINT NOT NULL,
	not_before BIGINT NOT NULL DEFAULT 0, -- the rest of the wait is the queue's delay
	queue      TEXT NOT NULL,
	fifo       BIGINT NOT NULL,
	grp        TEXT NOT NULL,
	dedup      TEXT NOT NULL,
	body       TEXT NOT NULL,
	tenant     TEXT NOT NULL,
	attributes TEXT NOT NULL,
	step       TEXT NOT NULL,
	failures   BIGINT NOT NULL DEFAULT 0,
	created_at BIGINT NOT NULL
);
CREATE INDEX outbox_ready ON outbox (ready_at);
CREATE INDEX outbox_step ON outbox (step);
CREATE INDEX outbox_failed ON outbox (queue, grp, id) WHERE failures > 0;

CREATE TABLE inbox (
	provider TEXT NOT NULL,
	event    TEXT NOT NULL,
	effect   TEXT NOT NULL,
	body     TEXT NOT NULL,
	at       BIGINT NOT NULL,
	PRIMARY KEY (provider, event)
);
CREATE INDEX inbox_effect ON inbox (effect, at);
CREATE INDEX inbox_at ON inbox (at);

CREATE TABLE effect (
	id     TEXT PRIMARY KEY,
	step   TEXT NOT NULL,
	name   TEXT NOT NULL,
	state  TEXT NOT NULL, -- begun or done
	result TEXT NOT NULL DEFAULT '', -- base64
	at     BIGINT NOT NULL
);
CREATE UNIQUE INDEX effect_step ON effect (step, name);

CREATE TABLE await (
	effect   TEXT PRIMARY KEY,
	step     TEXT NOT NULL,
	state    TEXT NOT NULL, -- open, parked or settled
	deadline BIGINT NOT NULL DEFAULT 0,
	seen     BIGINT NOT NULL DEFAULT 0 -- when the last event that an execution was given came
);
CREATE INDEX await_deadline ON await (deadline) WHERE state = 'parked';

CREATE TABLE lease (
	name   TEXT PRIMARY KEY,
	holder TEXT NOT NULL,
	until  BIGINT NOT NULL
);

CREATE TABLE worker (
	id      TEXT PRIMARY KEY,
	stage   TEXT NOT NULL,
	status  TEXT NOT NULL,
	seen_at BIGINT NOT NULL
);
CREATE INDEX worker_seen ON worker (seen_at);

CREATE TABLE pause (
	stage  TEXT PRIMARY KEY, -- or all
	reason TEXT NOT NULL,
	who    TEXT NOT NULL,
	at     BIGINT NOT NULL,
	until  BIGINT NOT NULL
);

CREATE TABLE audit (
	id     TEXT PRIMARY KEY,
	at     BIGINT NOT NULL,
	who    TEXT NOT NULL,
	action TEXT NOT NULL,
	object TEXT NOT NULL,
	detail TEXT NOT NULL DEFAULT ''
);
CREATE INDEX audit_object ON audit (object, id);

CREATE TABLE api_key (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	hash       TEXT NOT NULL,
	scopes     TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL DEFAULT 0,
	revoked_at BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX api_key_hash ON api_key (hash);
CREATE INDEX api_key_tenant ON api_key (tenant, id);

CREATE TABLE webhook (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	job        TEXT NOT NULL,
	url        TEXT NOT NULL,
	state      TEXT NOT NULL, -- pending, sent, acknowledged or given_up
	body       TEXT NOT NULL,
	failures   BIGINT NOT NULL DEFAULT 0,
	ready_at   BIGINT NOT NULL,
	created_at BIGINT NOT NULL
);
CREATE INDEX webhook_ready ON webhook (ready_at) WHERE state = 'pending';

CREATE TABLE import (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	state      TEXT NOT NULL,
	code       TEXT NOT NULL DEFAULT '',
	object     TEXT NOT NULL,
	row_count  BIGINT NOT NULL DEFAULT 0,
	created_at BIGINT NOT NULL,
	ended_at   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX import_tenant ON import (tenant, id);

CREATE TABLE import_row (
	import    TEXT NOT NULL,
	sheet     TEXT NOT NULL,
	row_no    BIGINT NOT NULL,
	state     TEXT NOT NULL, -- pending, accepted or refused
	input     TEXT NOT NULL,
	job       TEXT NOT NULL DEFAULT '',
	column_no BIGINT NOT NULL DEFAULT 0,
	code      TEXT NOT NULL DEFAULT '',
	sentence  TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (import, sheet, row_no)
);
CREATE INDEX import_row_pending ON import_row (import, sheet, row_no) WHERE state = 'pending';
