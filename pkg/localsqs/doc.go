// Package localsqs is an Amazon SQS compatible server for tests and for running a fleet on one machine. It speaks the
// AWS JSON 1.0 protocol that current SDKs and the AWS CLI v2 use, and promises the documented behaviour of SQS: visibility,
// FIFO groups, deduplication, delays, dead-letter queues, move tasks, limits and typed errors.
//
// A [Server] is an [net/http.Handler]; any number may live in one process, each with its own queues. Sub-package sqsclient
// gives a ready client without sockets, usable inside testing/synctest bubbles. The server keeps everything in memory
// unless it was made by [Open], which keeps it in a directory as well.
//
// Where it differs: it does not check permissions or encrypt, does not throttle unless told to by a [Fault], and every
// change takes effect at once. A deep FIFO group never hides another one, as the 120,000-message look-ahead of real queues
// can, and fair queues judge a tenant by its messages in flight, not by its processing time.
package localsqs
