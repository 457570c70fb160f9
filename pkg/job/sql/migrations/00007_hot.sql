-- An execution that ends well changes no indexed column, so Postgres writes its end without new index entries.

-- +goose Up
DROP INDEX attempt_garbage;
CREATE INDEX attempt_garbage ON attempt (id) WHERE garbage = 1;
