-- Accounts whose counts are not those of their jobs. One statement sees one moment.
-- name: drifted
SELECT account.tenant FROM account
WHERE account.in_flight <> (SELECT COUNT(*) FROM job j WHERE j.tenant = account.tenant AND j.state IN ('waiting', 'active'))
	OR account.waiting <> (SELECT COUNT(*) FROM job j WHERE j.tenant = account.tenant AND j.state = 'waiting')

-- The account is locked: jobs begin and end only under that lock.
-- name: recount
SELECT a.in_flight, a.waiting,
	(SELECT COUNT(*) FROM job j WHERE j.tenant = a.tenant AND j.state IN ('waiting', 'active')),
	(SELECT COUNT(*) FROM job j WHERE j.tenant = a.tenant AND j.state = 'waiting')
FROM account a WHERE a.tenant = $1

-- name: mend_account
UPDATE account SET in_flight = $2, waiting = $3 WHERE tenant = $1
