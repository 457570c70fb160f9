-- Keys that are named, limited and seen in use; recordings that come in pieces.

-- +goose Up
ALTER TABLE api_key ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN per_minute BIGINT NOT NULL DEFAULT 0; -- requests; 0: the server's default
ALTER TABLE api_key ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0; -- to the minute

CREATE TABLE resumable (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	size       BIGINT NOT NULL,
	sha256     TEXT NOT NULL DEFAULT '', -- that the sender says; empty: says nothing
	received   BIGINT NOT NULL DEFAULT 0,
	parts      TEXT NOT NULL DEFAULT '[]', -- keys of the objects that hold what was received, in order
	object     TEXT NOT NULL DEFAULT '', -- the whole, once it is
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL
);
CREATE INDEX resumable_expires ON resumable (expires_at);
