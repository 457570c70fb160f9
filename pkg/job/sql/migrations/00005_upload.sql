-- Objects that a submitter has sent and that no job refers to yet.

-- +goose Up
CREATE TABLE upload (
	folder TEXT PRIMARY KEY, -- of the object, in the object store
	at     BIGINT NOT NULL   -- when it came; 0: condemned, it may be gone
);
CREATE INDEX upload_at ON upload (at);
