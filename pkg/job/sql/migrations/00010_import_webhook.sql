-- An import may name the address that the ends of its jobs are reported to.

-- +goose Up
ALTER TABLE import ADD COLUMN webhook TEXT NOT NULL DEFAULT '';
