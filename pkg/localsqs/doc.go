// Package localsqs is an Amazon SQS compatible server for tests and for running a fleet on one machine. It speaks the
// AWS JSON 1.0 protocol that current SDKs and CLIs use, and promises the documented behaviour of SQS: visibility, FIFO
// groups, deduplication, delays, dead-letter queues, move tasks, limits and typed errors. A client of the older Query
// protocol, such as an AWS CLI from before November 2023, gets one error that says so.
//
// In a Go test, sub-package sqsclient gives an ordinary SDK client without a socket:
//
//	server := localsqs.New(localsqs.Options{})
//	defer server.Close()
//	client := sqsclient.New(server) // a *sqs.Client
//	queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("jobs")})
//	// then give client and queue.QueueUrl to the code under test
//
// Any other client needs an address: a [Server] is an [net/http.Handler], so that httptest.NewServer(server).URL will do
// as its endpoint (AWS_ENDPOINT_URL_SQS), with any region and credentials. [Serve] runs a server of its own. Any number
// of servers may live in one process, each with its own queues. They keep everything in memory; those made by [Open]
// keep it in a directory as well.
//
// What it does otherwise than SQS:
//   - it does not check permissions or encrypt, does not throttle unless told to by a [Fault], and every change takes
//     effect at once;
//   - a deep FIFO group never hides another one, as the 120,000-message look-ahead of real queues can;
//   - fair queues pass over a tenant with more than a tenth and at least thirty of the messages in flight, whatever time
//     it takes for them: AWS does not publish its rule;
//   - with a directory, what was acknowledged survives the death of the process, but a power failure can take the last
//     moments, because only Close waits for the disk.
package localsqs
