package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// entries makes n entries with distinct ids and the given body.
func entries(n int, body string) []types.SendMessageBatchRequestEntry {
	var all []types.SendMessageBatchRequestEntry
	for i := range n {
		all = append(all, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("e", i)), MessageBody: &body})
	}
	return all
}

func (e *env) trySendBatch(url *string, all []types.SendMessageBatchRequestEntry) (*sqs.SendMessageBatchOutput, error) {
	return e.SendMessageBatch(e.ctx(), &sqs.SendMessageBatchInput{QueueUrl: url, Entries: all})
}

func (e *env) failed(failures []types.BatchResultErrorEntry, id string, codes ...string) {
	e.Helper()
	if len(failures) != 1 || *failures[0].Id != id || !failures[0].SenderFault {
		e.Errorf("failures are %+v, want one for %s", failures, id)
		return
	}
	for _, code := range codes {
		if *failures[0].Code == code {
			return
		}
	}
	e.Errorf("code is %s, want %v", *failures[0].Code, codes)
}

var batchBehaviours = []behaviour{
	{name: "ten are sent in one call and received in one call", run: func(e *env) {
		url := e.queue()
		out := must[*sqs.SendMessageBatchOutput](e)(e.trySendBatch(url, entries(10, "x")))
		if len(out.Successful) != 10 || len(out.Failed) != 0 {
			e.Fatalf("%d sent, %d failed", len(out.Successful), len(out.Failed))
		}
		if got := e.receive(url); len(got) != 10 {
			e.Errorf("received %d", len(got))
		}
	}},
	{name: "deleting with one bad handle fails that entry only", run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		m := e.one(url)
		out := must[*sqs.DeleteMessageBatchOutput](e)(e.DeleteMessageBatch(e.ctx(), &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("bad"), ReceiptHandle: aws.String("bogus")}, {Id: aws.String("good"), ReceiptHandle: m.ReceiptHandle},
		}}))
		e.failed(out.Failed, "bad", "ReceiptHandleIsInvalid")
		if len(out.Successful) != 1 || *out.Successful[0].Id != "good" {
			e.Errorf("successes are %v", out.Successful)
		}
		e.counts(url, "0", "0", "0")
	}},
	{name: "visibility is changed for the good entries only", takes: time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x")
		e.send(url, "y")
		got := e.receive(url)
		out := must[*sqs.ChangeMessageVisibilityBatchOutput](e)(e.ChangeMessageVisibilityBatch(e.ctx(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("now"), ReceiptHandle: got[0].ReceiptHandle, VisibilityTimeout: 0}, {Id: aws.String("bad"), ReceiptHandle: got[1].ReceiptHandle, VisibilityTimeout: 43_201},
		}}))
		e.failed(out.Failed, "bad", "InvalidParameterValue")
		if len(out.Successful) != 1 || *out.Successful[0].Id != "now" {
			e.Errorf("successes are %v", out.Successful)
		}
		e.expect(url, *got[0].Body)
	}},
	{name: "eleven entries are too many", run: func(e *env) {
		_, err := e.trySendBatch(e.queue(), entries(11, "x"))
		refused[*types.TooManyEntriesInBatchRequest](e, err)
	}},
	{name: "no entries are too few", run: func(e *env) {
		_, err := e.trySendBatch(e.queue(), []types.SendMessageBatchRequestEntry{})
		refused[*types.EmptyBatchRequest](e, err)
	}},
	{name: "entry ids must differ", run: func(e *env) {
		all := entries(2, "x")
		all[1].Id = all[0].Id
		_, err := e.trySendBatch(e.queue(), all)
		refused[*types.BatchEntryIdsNotDistinct](e, err)
	}},
	{name: "entry ids are plain and at most 80 long", run: func(e *env) {
		url := e.queue()
		for _, id := range []string{"a b", "", "ä", strings.Repeat("x", 81)} {
			all := entries(1, "x")
			all[0].Id = &id
			_, err := e.trySendBatch(url, all)
			refused[*types.InvalidBatchEntryId](e, err)
		}
	}},
	{name: "a batch over 1 MiB in total is refused whole", run: func(e *env) {
		url := e.queue()
		_, err := e.trySendBatch(url, entries(10, strings.Repeat("x", 1<<20/10+1)))
		refused[*types.BatchRequestTooLong](e, err)
		e.none(url)
		must[*sqs.SendMessageBatchOutput](e)(e.trySendBatch(url, entries(8, strings.Repeat("x", 1<<20/8))))
	}},
	{name: "an entry with a bad body fails alone", run: func(e *env) {
		url := e.queue()
		all := entries(2, "x")
		all[0].MessageBody = aws.String("\x01")
		out := must[*sqs.SendMessageBatchOutput](e)(e.trySendBatch(url, all))
		e.failed(out.Failed, "e0", "InvalidMessageContents")
		e.expect(url, "x")
	}},
	{name: "an expired handle of a FIFO batch fails its entry", takes: 2 * time.Second, run: func(e *env) {
		url := e.fifo("VisibilityTimeout", "1")
		e.send(url, "x", group("g"))
		m := e.one(url)
		e.settle(time.Second + e.margin())
		out := must[*sqs.DeleteMessageBatchOutput](e)(e.DeleteMessageBatch(e.ctx(), &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("old"), ReceiptHandle: m.ReceiptHandle},
		}}))
		e.failed(out.Failed, "old", "ReceiptHandleIsInvalid")
	}},
}
