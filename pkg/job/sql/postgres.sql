-- Postgres only: room in every page for the versions of a row that claim and publish make, so that they need no new
-- index entries.

-- name: tune_steps
ALTER TABLE step SET (fillfactor = 50)

-- name: tune_attempts
ALTER TABLE attempt SET (fillfactor = 45)
