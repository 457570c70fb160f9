-- The entry of a recovered job is of kind recovered, however often that has happened.

-- +goose Up
UPDATE account_entry SET kind = 'recovered' WHERE kind LIKE 'recovered/%';
