-- Outgoing events: a job names the address that its end is reported to; secrets sign what is sent.

-- +goose Up
ALTER TABLE job ADD COLUMN webhook TEXT NOT NULL DEFAULT '';

-- Of webhook: ready_at 0 means settled, so that one small index holds what is to be sent.
DROP INDEX webhook_ready;
CREATE INDEX webhook_ready ON webhook (ready_at) WHERE ready_at > 0;
CREATE INDEX webhook_job ON webhook (job, id);
CREATE INDEX webhook_at ON webhook (created_at);

CREATE TABLE webhook_secret (
	tenant     TEXT NOT NULL,
	expires_at BIGINT NOT NULL, -- 0: the current one
	secret     TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (tenant, expires_at)
);
