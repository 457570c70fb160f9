package queuetest

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// withAttributes sets message attributes of every kind.
func withAttributes(in *sqs.SendMessageInput) {
	in.MessageAttributes = map[string]types.MessageAttributeValue{
		"s":       {DataType: aws.String("String"), StringValue: aws.String("wörd")},
		"n":       {DataType: aws.String("Number.int"), StringValue: aws.String("-12.5e3")},
		"b":       {DataType: aws.String("Binary.png"), BinaryValue: []byte{0, 1, 255}},
		"trace.a": {DataType: aws.String("String"), StringValue: aws.String("A")},
		"trace.b": {DataType: aws.String("String"), StringValue: aws.String("B")},
	}
}

func attribute(kind, value string) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		in.MessageAttributes["a"+strconv.Itoa(len(in.MessageAttributes))] = types.MessageAttributeValue{DataType: &kind, StringValue: &value}
	}
}

var messageBehaviours = []behaviour{
	{name: "a body of any script comes back with its MD5", run: func(e *env) {
		url := e.queue()
		body := "grüße 世界 🎬 \"quoted\" <tag> & \\ \t\n\r \u2028 \uFFFD end"
		sum := md5.Sum([]byte(body))
		sent := e.send(url, body)
		got := e.one(url)
		if *got.Body != body || *got.MessageId != *sent.MessageId || *got.MD5OfBody != hex.EncodeToString(sum[:]) || *sent.MD5OfMessageBody != *got.MD5OfBody {
			e.Errorf("got %q %s, sent %s", *got.Body, *got.MD5OfBody, *sent.MD5OfMessageBody)
		}
		e.delete(url, got)
		e.counts(url, "0", "0", "0")
	}},
	{name: "message attributes of all types come back with their MD5", run: func(e *env) {
		url := e.queue()
		sent := e.send(url, "x", withAttributes)
		got := e.one(url)
		if len(got.MessageAttributes) != 5 || string(got.MessageAttributes["b"].BinaryValue) != "\x00\x01\xff" || *got.MessageAttributes["n"].StringValue != "-12.5e3" || *got.MessageAttributes["n"].DataType != "Number.int" {
			e.Errorf("attributes are %v", got.MessageAttributes)
		}
		if *got.MD5OfMessageAttributes != *sent.MD5OfMessageAttributes {
			e.Errorf("MD5 is %s on receive and %s on send", *got.MD5OfMessageAttributes, *sent.MD5OfMessageAttributes)
		}
	}},
	{name: "the MD5 of one string attribute is the documented digest", run: func(e *env) {
		sent := e.send(e.queue(), "x", attribute("String", "v"))
		sum := md5.Sum([]byte("\x00\x00\x00\x02a0\x00\x00\x00\x06String\x01\x00\x00\x00\x01v"))
		if want := hex.EncodeToString(sum[:]); *sent.MD5OfMessageAttributes != want {
			e.Errorf("MD5 is %s, want %s", *sent.MD5OfMessageAttributes, want)
		}
	}},
	{name: "message attributes come by name or prefix and system attributes only on request", takes: time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "x", withAttributes)
		ask := func(names ...string) types.Message {
			m := e.one(url, func(in *sqs.ReceiveMessageInput) {
				in.MessageAttributeNames, in.MessageSystemAttributeNames = names, nil
			})
			e.visibility(url, m, 0)
			return m
		}
		for _, c := range []struct {
			names []string
			want  int
		}{{nil, 0}, {[]string{"s"}, 1}, {[]string{"trace.*"}, 2}, {[]string{"trace.*", "n", "missing"}, 3}, {[]string{".*"}, 5}, {[]string{"All"}, 5}} {
			m := ask(c.names...)
			if len(m.MessageAttributes) != c.want || len(m.Attributes) != 0 || (m.MD5OfMessageAttributes == nil) != (c.want == 0) {
				e.Errorf("%v gave %v and %v", c.names, m.MessageAttributes, m.Attributes)
			}
		}
	}},
	{name: "system attributes tell sender times and receives", takes: 2 * time.Second, run: func(e *env) {
		url := e.queue()
		before := time.Now().Truncate(time.Millisecond)
		e.send(url, "x")
		e.settle(time.Second)
		m := e.one(url)
		sent, _ := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
		first, _ := strconv.ParseInt(m.Attributes["ApproximateFirstReceiveTimestamp"], 10, 64)
		if time.UnixMilli(sent).Before(before) || first < sent+1000 || m.Attributes["SenderId"] == "" || m.Attributes["ApproximateReceiveCount"] != "1" {
			e.Errorf("attributes are %v", m.Attributes)
		}
		if _, ok := m.Attributes["SequenceNumber"]; ok {
			e.Error("a standard queue has no sequence numbers")
		}
	}},
	{name: "an unknown system attribute is refused", run: func(e *env) {
		_, err := e.tryReceive(e.queue(), func(in *sqs.ReceiveMessageInput) {
			in.MessageSystemAttributeNames = []types.MessageSystemAttributeName{"Nonsense"}
		})
		coded(e, err, "InvalidAttributeName", "InvalidParameterValue")
	}},
	{name: "a body of 1 MiB is taken whole and one byte more is refused", run: func(e *env) {
		url := e.queue()
		body := strings.Repeat("x", 1<<20)
		e.send(url, body)
		if got := e.one(url); *got.Body != body {
			e.Errorf("got %d bytes", len(*got.Body))
		}
		_, err := e.trySend(url, body+"x")
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "MaximumMessageSize counts attributes too", run: func(e *env) {
		url := e.queue("MaximumMessageSize", "1024")
		e.send(url, strings.Repeat("x", 1024))
		_, err := e.trySend(url, strings.Repeat("x", 1025))
		coded(e, err, "InvalidParameterValue")
		// "a0", "String" and the value count: 2 + 6 + 16.
		e.send(url, strings.Repeat("x", 1000), attribute("String", strings.Repeat("v", 16)))
		_, err = e.trySend(url, strings.Repeat("x", 1000), attribute("String", strings.Repeat("v", 17)))
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "an empty body is refused", run: func(e *env) {
		_, err := e.trySend(e.queue(), "")
		coded(e, err, "MissingParameter", "InvalidParameterValue")
	}},
	{name: "a body with a control character is refused", run: func(e *env) {
		url := e.queue()
		for _, body := range []string{"a\x00", "a\x0b", "a\uFFFE", "a\uFFFF"} {
			_, err := e.trySend(url, body)
			refused[*types.InvalidMessageContents](e, err)
		}
	}},
	{name: "bad message attributes are refused", run: func(e *env) {
		url := e.queue()
		for _, mod := range []func(*sqs.SendMessageInput){
			attribute("Text", "v"), attribute("String", ""), attribute("", "v"), attribute("Number", "many"), attribute("Binary", "v"),
		} {
			_, err := e.trySend(url, "x", mod)
			coded(e, err, "InvalidParameterValue")
		}
		for _, name := range []string{"AWS.x", "amazon.x", ".x", "x.", "x..y", "x y", strings.Repeat("x", 257)} {
			_, err := e.trySend(url, "x", func(in *sqs.SendMessageInput) {
				in.MessageAttributes = map[string]types.MessageAttributeValue{name: {DataType: aws.String("String"), StringValue: aws.String("v")}}
			})
			coded(e, err, "InvalidParameterValue")
		}
		many := func(n int) (mods []func(*sqs.SendMessageInput)) {
			for range n {
				mods = append(mods, attribute("String", "v"))
			}
			return mods
		}
		e.send(url, "x", many(10)...)
		_, err := e.trySend(url, "x", many(11)...)
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "the trace header round trips", run: func(e *env) {
		url := e.queue()
		const trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
		e.send(url, "x", func(in *sqs.SendMessageInput) {
			in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(trace)}}
		})
		if m := e.one(url); m.Attributes["AWSTraceHeader"] != trace || len(m.MessageAttributes) != 0 {
			e.Errorf("attributes are %v", m.Attributes)
		}
	}},
	{name: "receiving more than 10 or waiting more than 20 s is refused", run: func(e *env) {
		url := e.queue()
		for _, mod := range []func(*sqs.ReceiveMessageInput){most(11), most(-1), wait(21), wait(-1), hidden(43_201), hidden(-1)} {
			_, err := e.tryReceive(url, mod)
			coded(e, err, "InvalidParameterValue")
		}
	}},
	{name: "a receive without a maximum brings one message", run: func(e *env) {
		url := e.queue()
		for i := range 3 {
			e.send(url, fmt.Sprint(i))
		}
		e.one(url, most(0))
	}},
}
