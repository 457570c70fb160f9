package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// sendAll sends to one group in order.
func (e *env) sendAll(url *string, to string, all ...string) {
	e.Helper()
	for _, body := range all {
		e.send(url, body, group(to))
	}
}

// sameAttempt gives receives one ReceiveRequestAttemptId.
func sameAttempt(in *sqs.ReceiveMessageInput) { in.ReceiveRequestAttemptId = aws.String("attempt") }

var fifoBehaviours = []behaviour{
	{name: "a group is required", run: func(e *env) {
		_, err := e.trySend(e.fifo(), "x", dedup("d"))
		coded(e, err, "MissingParameter")
	}},
	{name: "a group keeps strict order over 30 messages", run: func(e *env) {
		url := e.fifo()
		var want, got []string
		for i := range 30 {
			want = append(want, fmt.Sprint(i))
		}
		e.sendAll(url, "g", want...)
		for len(got) < len(want) {
			batch := e.receive(url)
			if len(batch) == 0 {
				break
			}
			got = append(got, bodies(batch)...)
			e.delete(url, batch...)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			e.Errorf("got %v", got)
		}
	}},
	{name: "a group is locked while one of its messages is in flight and others flow", run: func(e *env) {
		url := e.fifo()
		e.sendAll(url, "a", "a1", "a2")
		held := e.one(url, most(1))
		e.sendAll(url, "b", "b1")
		e.expect(url, "b1")
		e.none(url)
		e.delete(url, held)
		e.expect(url, "a2")
	}},
	{name: "a group is locked until all its messages in flight are settled", run: func(e *env) {
		url := e.fifo()
		e.sendAll(url, "g", "1", "2", "3", "4")
		held := e.receive(url, most(3))
		e.delete(url, held[0])
		e.none(url)
		e.delete(url, held[2])
		e.none(url)
		e.delete(url, held[1])
		e.expect(url, "4")
	}},
	{name: "a returned message waits for the rest of its group", run: func(e *env) {
		url := e.fifo()
		e.sendAll(url, "g", "1", "2", "3")
		held := e.receive(url, most(2))
		e.visibility(url, held[0], 0)
		e.none(url)
		e.visibility(url, held[1], 0)
		e.expect(url, "1", "2", "3")
	}},
	{name: "one receive brings several of a group in order and fills up from others", run: func(e *env) {
		url := e.fifo()
		e.sendAll(url, "a", "a1")
		e.sendAll(url, "b", "b1")
		e.sendAll(url, "a", "a2")
		e.expect(url, "a1", "a2", "b1")
	}},
	{name: "after the visibility timeout the same messages come first in order", takes: 2 * time.Second, run: func(e *env) {
		url := e.fifo("VisibilityTimeout", "1")
		e.sendAll(url, "g", "1", "2", "3", "4")
		e.receive(url, most(2))
		e.edge(time.Second, func() { e.none(url) }, func() { e.expect(url, "1", "2", "3", "4") })
	}},
	{name: "order survives negative acknowledgements in any order", run: func(e *env) {
		url := e.fifo()
		e.sendAll(url, "g", "1", "2", "3", "4")
		held := e.receive(url, most(3))
		for _, i := range []int{1, 2, 0} {
			e.visibility(url, held[i], 0)
		}
		e.expect(url, "1", "2", "3", "4")
	}},
	{name: "sequence numbers rise through send batch and receive", run: func(e *env) {
		url := e.fifo()
		first := e.send(url, "1", group("a"))
		all := entries(2, "x")
		for i := range all {
			all[i].MessageGroupId, all[i].MessageDeduplicationId = aws.String("b"), aws.String(fmt.Sprint(i))
		}
		out := must[*sqs.SendMessageBatchOutput](e)(e.trySendBatch(url, all))
		got := e.receive(url)
		numbers := []string{*first.SequenceNumber, *out.Successful[0].SequenceNumber, *out.Successful[1].SequenceNumber}
		for i, m := range got {
			if m.Attributes["SequenceNumber"] != numbers[i] || len(numbers[i]) != 20 || i > 0 && numbers[i] <= numbers[i-1] {
				e.Errorf("sent %v, received %s at %d", numbers, m.Attributes["SequenceNumber"], i)
			}
		}
		if len(got) != 3 {
			e.Errorf("received %d", len(got))
		}
	}},
	{name: "high throughput attributes are accepted and a bad pair refused", run: func(e *env) {
		url := e.fifo("DeduplicationScope", "messageGroup", "FifoThroughputLimit", "perMessageGroupId")
		if e.attribute(url, types.QueueAttributeNameDeduplicationScope) != "messageGroup" || e.attribute(url, types.QueueAttributeNameFifoThroughputLimit) != "perMessageGroupId" {
			e.Error("the attributes did not come back")
		}
		err := e.set(url, "DeduplicationScope", "queue")
		coded(e, err, "InvalidAttributeValue", "InvalidParameterValue")
		_, err = e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: aws.String(e.name(".fifo")), Attributes: map[string]string{"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}})
		coded(e, err, "InvalidAttributeValue", "InvalidParameterValue")
	}},
	{name: "group and deduplication id come with the message", run: func(e *env) {
		url := e.fifo()
		e.send(url, "x", group("the group"[:3]), dedup("the-id"))
		if m := e.one(url); m.Attributes["MessageGroupId"] != "the" || m.Attributes["MessageDeduplicationId"] != "the-id" {
			e.Errorf("attributes are %v", m.Attributes)
		}
	}},
	{name: "a batch entry without a group fails alone", run: func(e *env) {
		url := e.fifo()
		all := entries(2, "x")
		all[0].MessageDeduplicationId, all[1].MessageDeduplicationId = aws.String("a"), aws.String("b")
		all[1].MessageGroupId = aws.String("g")
		out := must[*sqs.SendMessageBatchOutput](e)(e.trySendBatch(url, all))
		e.failed(out.Failed, "e0", "MissingParameter")
		e.one(url)
	}},
	{name: "a repeated attempt id returns the same messages and handles", takes: 3 * time.Second, run: func(e *env) {
		url := e.fifo("VisibilityTimeout", "2")
		e.sendAll(url, "g", "1", "2")
		first := e.receive(url, sameAttempt)
		e.settle(time.Second)
		second := e.receive(url, sameAttempt)
		if len(second) != 2 || *first[0].ReceiptHandle != *second[0].ReceiptHandle || *first[1].ReceiptHandle != *second[1].ReceiptHandle {
			e.Fatalf("got %q", bodies(second))
		}
		if second[0].Attributes["ApproximateReceiveCount"] != "1" {
			e.Error("the repeat was counted as a receive")
		}
		// The repeat started the visibility timeout anew.
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.expect(url, "1", "2") })
	}},
	{name: "an attempt id is refused once a message was deleted or its visibility changed", run: func(e *env) {
		for _, change := range []func(url *string, m types.Message){
			func(url *string, m types.Message) { e.delete(url, m) },
			func(url *string, m types.Message) { e.visibility(url, m, 10) },
		} {
			url := e.fifo()
			e.sendAll(url, "g", "1", "2")
			got := e.receive(url, sameAttempt)
			change(url, got[0])
			_, err := e.tryReceive(url, sameAttempt)
			coded(e, err, "InvalidParameterValue")
			if again := e.receive(url); len(again) != 0 {
				e.Errorf("got %q", bodies(again))
			}
		}
	}},
	{name: "an attempt id is forgotten after five minutes", exact: true, run: func(e *env) {
		url := e.fifo("VisibilityTimeout", "3600")
		e.sendAll(url, "g", "1")
		e.one(url, sameAttempt)
		e.edge(5*time.Minute, func() { e.none(url) }, func() {
			if again := e.receive(url, sameAttempt); len(again) != 0 {
				e.Errorf("got %q", bodies(again))
			}
		})
	}},
	{name: "an attempt id on a standard queue is refused", run: func(e *env) {
		_, err := e.tryReceive(e.queue(), sameAttempt)
		coded(e, err, "InvalidParameterValue")
	}},
}

var dedupBehaviours = []behaviour{
	{name: "an id or content based deduplication is required", run: func(e *env) {
		_, err := e.trySend(e.fifo(), "x", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("g") })
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "the same id is delivered once and answered alike", run: func(e *env) {
		url := e.fifo()
		first := e.send(url, "x", group("g"), dedup("d"))
		second := e.send(url, "x", group("g"), dedup("d"))
		if *first.MessageId != *second.MessageId || *first.SequenceNumber != *second.SequenceNumber {
			e.Errorf("answers are %s %s and %s %s", *first.MessageId, *first.SequenceNumber, *second.MessageId, *second.SequenceNumber)
		}
		e.expect(url, "x")
	}},
	{name: "deduplication outlives receive and delete", run: func(e *env) {
		url := e.fifo()
		e.send(url, "x", group("g"), dedup("d"))
		e.delete(url, e.one(url))
		e.send(url, "x", group("g"), dedup("d"))
		e.none(url)
	}},
	{name: "deduplication lasts five minutes", exact: true, run: func(e *env) {
		url := e.fifo()
		e.send(url, "first", group("g"), dedup("d"))
		e.delete(url, e.one(url))
		e.edge(5*time.Minute, func() {
			e.send(url, "duplicate", group("g"), dedup("d"))
			e.none(url)
		}, func() {
			e.send(url, "second", group("g"), dedup("d"))
			e.expect(url, "second")
		})
	}},
	{name: "content based deduplication hashes the body only", run: func(e *env) {
		url := e.fifo("ContentBasedDeduplication", "true")
		plain := func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("g") }
		e.send(url, "x", plain)
		e.send(url, "x", plain, attribute("String", "v"))
		// The SHA-256 of "x".
		const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
		e.send(url, "other", group("g"), dedup(sum))
		if m := e.one(url); m.Attributes["MessageDeduplicationId"] != sum {
			e.Errorf("attributes are %v", m.Attributes)
		}
	}},
	{name: "the scope is the queue unless it is the group", run: func(e *env) {
		wide, narrow := e.fifo(), e.fifo("DeduplicationScope", "messageGroup")
		for _, url := range []*string{wide, narrow} {
			e.send(url, "a", group("a"), dedup("d"))
			e.send(url, "b", group("b"), dedup("d"))
			e.send(url, "again", group("b"), dedup("d"))
		}
		e.expect(wide, "a")
		e.expect(narrow, "a", "b")
	}},
	{name: "a duplicate with another body is accepted and dropped", run: func(e *env) {
		url := e.fifo()
		e.send(url, "x", group("g"), dedup("d"))
		e.send(url, "another body", group("g"), dedup("d"))
		e.expect(url, "x")
	}},
	{name: "ids are at most 128 plain characters", run: func(e *env) {
		url := e.fifo()
		for _, id := range []string{strings.Repeat("x", 129), "a b", "ä"} {
			_, err := e.trySend(url, "x", group("g"), dedup(id))
			coded(e, err, "InvalidParameterValue")
			_, err = e.trySend(url, "x", group(id))
			coded(e, err, "InvalidParameterValue")
		}
		e.send(url, "x", group(strings.Repeat("g", 128)), dedup("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
	}},
}
