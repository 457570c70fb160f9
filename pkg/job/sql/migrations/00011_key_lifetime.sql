-- A key keeps its lifetime through rotations, whose overlap shortens only the life of the one before.

-- +goose Up
ALTER TABLE api_key ADD COLUMN lifetime BIGINT NOT NULL DEFAULT 0; -- that it was made with; 0: until it is revoked
UPDATE api_key SET lifetime = expires_at - created_at WHERE expires_at > 0;
