// Package job is the truth about the work: targets and their versions, jobs, steps, attempts, accounts and
// the messages that still have to be sent. It lives in SQLite (one file, many processes) or in Postgres.
//
// What it promises: no state is inferred from a queue; whoever holds a step's lease, and nobody else, can
// move it; a step's outputs, the steps that follow and their messages are one transaction; charges and
// refunds happen once. What it does not: it runs nothing, talks to no queue (a Sender does) and reads no
// payload. Package worker claims, renews and publishes; the server submits, relays and reconciles.
package job
