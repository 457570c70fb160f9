-- What an execution used of a provider's quotas, by the provider's own word.

-- +goose Up
ALTER TABLE attempt ADD COLUMN requests BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
