package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var queueBehaviours = []behaviour{
	{name: "attributes given at creation come back", run: func(e *env) {
		given := []string{"DelaySeconds", "5", "MaximumMessageSize", "2048", "MessageRetentionPeriod", "3600", "ReceiveMessageWaitTimeSeconds", "7", "VisibilityTimeout", "77"}
		url := e.queue(given...)
		out := must[*sqs.GetQueueAttributesOutput](e)(e.GetQueueAttributes(e.ctx(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"All"}}))
		for name, value := range attributes(given) {
			if out.Attributes[name] != value {
				e.Errorf("%s is %q, want %q", name, out.Attributes[name], value)
			}
		}
		for _, name := range []string{"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"} {
			if out.Attributes[name] == "" {
				e.Errorf("%s is missing", name)
			}
		}
	}},
	{name: "defaults are 30 s visibility 4 days retention 1 MiB", run: func(e *env) {
		url := e.queue()
		for name, want := range map[types.QueueAttributeName]string{
			"VisibilityTimeout": "30", "MessageRetentionPeriod": "345600", "MaximumMessageSize": "1048576", "DelaySeconds": "0",
			"ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true",
		} {
			if got := e.attribute(url, name); got != want {
				e.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}},
	{name: "counts tell visible hidden and delayed", takes: time.Second, run: func(e *env) {
		url := e.queue()
		e.send(url, "a")
		e.send(url, "b")
		e.send(url, "c")
		e.send(url, "later", delay(900))
		e.one(url, most(1))
		e.counts(url, "2", "1", "1")
	}},
	{name: "creating again with the same attributes returns the queue", run: func(e *env) {
		name := e.name("")
		first := e.create(name, map[string]string{"VisibilityTimeout": "60"})
		second := e.create(name, map[string]string{"VisibilityTimeout": "60"})
		if *first != *second {
			e.Errorf("URLs are %s and %s", *first, *second)
		}
	}},
	{name: "creating again with other attributes is refused", run: func(e *env) {
		name := e.name("")
		e.create(name, map[string]string{"VisibilityTimeout": "60"})
		_, err := e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "61"}})
		refused[*types.QueueNameExists](e, err)
	}},
	{name: "listing takes a prefix", run: func(e *env) {
		prefix := e.name("-")
		for _, suffix := range []string{"b", "a"} {
			e.create(prefix+suffix, nil)
		}
		e.queue()
		out := must[*sqs.ListQueuesOutput](e)(e.ListQueues(e.ctx(), &sqs.ListQueuesInput{QueueNamePrefix: &prefix}))
		if len(out.QueueUrls) != 2 || !strings.HasSuffix(out.QueueUrls[0], "-a") || out.NextToken != nil {
			e.Errorf("listed %v", out.QueueUrls)
		}
	}},
	{name: "listing pages by MaxResults and NextToken", run: func(e *env) {
		prefix := e.name("-")
		for _, suffix := range []string{"a", "b", "c", "d", "e"} {
			e.create(prefix+suffix, nil)
		}
		var all []string
		in := &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: aws.Int32(2)}
		for pages := sqs.NewListQueuesPaginator(e.Client, in); pages.HasMorePages(); {
			page := must[*sqs.ListQueuesOutput](e)(pages.NextPage(e.ctx()))
			if len(page.QueueUrls) > 2 {
				e.Errorf("a page of %d", len(page.QueueUrls))
			}
			all = append(all, page.QueueUrls...)
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != 5 {
			e.Errorf("listed %v", all)
		}
	}},
	{name: "the URL of a missing queue is refused", run: func(e *env) {
		_, err := e.GetQueueUrl(e.ctx(), &sqs.GetQueueUrlInput{QueueName: aws.String(e.name(""))})
		refused[*types.QueueDoesNotExist](e, err)
	}},
	{name: "every call on a missing queue is refused", run: func(e *env) {
		missing := aws.String(*e.queue() + "-missing")
		_, err := e.trySend(missing, "x")
		refused[*types.QueueDoesNotExist](e, err)
		_, err = e.tryReceive(missing)
		refused[*types.QueueDoesNotExist](e, err)
		_, err = e.GetQueueAttributes(e.ctx(), &sqs.GetQueueAttributesInput{QueueUrl: missing, AttributeNames: []types.QueueAttributeName{"All"}})
		refused[*types.QueueDoesNotExist](e, err)
		_, err = e.DeleteQueue(e.ctx(), &sqs.DeleteQueueInput{QueueUrl: missing})
		refused[*types.QueueDoesNotExist](e, err)
		coded(e, err, "AWS.SimpleQueueService.NonExistentQueue")
	}},
	{name: "tags are kept from creation added and removed", run: func(e *env) {
		name := e.name("")
		e.create(name, nil)
		created := must[*sqs.CreateQueueOutput](e)(e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: aws.String(name + "t"), Tags: map[string]string{"a": "1", "b": "2"}}))
		must[*sqs.TagQueueOutput](e)(e.TagQueue(e.ctx(), &sqs.TagQueueInput{QueueUrl: created.QueueUrl, Tags: map[string]string{"b": "3", "c": ""}}))
		must[*sqs.UntagQueueOutput](e)(e.UntagQueue(e.ctx(), &sqs.UntagQueueInput{QueueUrl: created.QueueUrl, TagKeys: []string{"a", "none"}}))
		out := must[*sqs.ListQueueTagsOutput](e)(e.ListQueueTags(e.ctx(), &sqs.ListQueueTagsInput{QueueUrl: created.QueueUrl}))
		if v, ok := out.Tags["c"]; len(out.Tags) != 2 || out.Tags["b"] != "3" || !ok || v != "" {
			e.Errorf("tags are %v", out.Tags)
		}
		must[*sqs.DeleteQueueOutput](e)(e.DeleteQueue(e.ctx(), &sqs.DeleteQueueInput{QueueUrl: created.QueueUrl}))
	}},
	{name: "changed attributes take effect", takes: 3 * time.Second, run: func(e *env) {
		url := e.queue()
		if err := e.set(url, "VisibilityTimeout", "2"); err != nil {
			e.Fatal(err)
		}
		e.send(url, "a")
		e.one(url)
		e.edge(2*time.Second, func() { e.none(url) }, func() { e.one(url) })
	}},
	{name: "a deleted queue is gone", run: func(e *env) {
		url := e.queue()
		e.send(url, "a")
		must[*sqs.DeleteQueueOutput](e)(e.DeleteQueue(e.ctx(), &sqs.DeleteQueueInput{QueueUrl: url}))
		_, err := e.tryReceive(url)
		refused[*types.QueueDoesNotExist](e, err)
	}},
	{name: "a name may be used again 60 s after the deletion", takes: time.Minute, run: func(e *env) {
		name := e.name("")
		url := e.create(name, nil)
		e.send(url, "a")
		must[*sqs.DeleteQueueOutput](e)(e.DeleteQueue(e.ctx(), &sqs.DeleteQueueInput{QueueUrl: url}))
		e.edge(time.Minute, func() {
			_, err := e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: &name})
			refused[*types.QueueDeletedRecently](e, err)
		}, func() { e.none(e.create(name, nil)) })
	}},
	{name: "invalid names are refused", run: func(e *env) {
		for _, name := range []string{"", "with space", "dot.ted", strings.Repeat("x", 81), "ü", "x.fifo", ".fifo"} {
			_, err := e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: &name})
			coded(e, err, "InvalidParameterValue")
		}
		_, err := e.CreateQueue(e.ctx(), &sqs.CreateQueueInput{QueueName: aws.String(e.name("")), Attributes: map[string]string{"FifoQueue": "true"}})
		coded(e, err, "InvalidParameterValue")
	}},
	{name: "invalid attribute values and names are refused", run: func(e *env) {
		url := e.queue()
		for _, bad := range [][2]string{
			{"VisibilityTimeout", "43201"}, {"VisibilityTimeout", "x"}, {"DelaySeconds", "901"}, {"MaximumMessageSize", "1023"},
			{"MaximumMessageSize", "1048577"}, {"MessageRetentionPeriod", "59"}, {"MessageRetentionPeriod", "1209601"},
			{"ReceiveMessageWaitTimeSeconds", "21"}, {"Policy", "{"}, {"RedriveAllowPolicy", `{"redrivePermission":"maybe"}`},
			{"SqsManagedSseEnabled", "perhaps"}, {"RedriveAllowPolicy", `{"redrivePermission":"byQueue"}`},
		} {
			refused[*types.InvalidAttributeValue](e, e.set(url, bad[0], bad[1]))
		}
		for _, name := range []string{"Nonsense", "ContentBasedDeduplication", "QueueArn"} {
			refused[*types.InvalidAttributeName](e, e.set(url, name, "true"))
		}
		_, err := e.GetQueueAttributes(e.ctx(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"Nonsense"}})
		refused[*types.InvalidAttributeName](e, err)
	}},
	{name: "the URL that is looked up is the one from creation", run: func(e *env) {
		name := e.name("")
		url := e.create(name, nil)
		out := must[*sqs.GetQueueUrlOutput](e)(e.GetQueueUrl(e.ctx(), &sqs.GetQueueUrlInput{QueueName: &name}))
		if *out.QueueUrl != *url {
			e.Errorf("looked up %s, created %s", *out.QueueUrl, *url)
		}
	}},
	{name: "permissions policy and encryption settings are recorded", run: func(e *env) {
		url := e.queue()
		must[*sqs.AddPermissionOutput](e)(e.AddPermission(e.ctx(), &sqs.AddPermissionInput{QueueUrl: url, Label: aws.String("peer"), AWSAccountIds: []string{"123456789012"}, Actions: []string{"SendMessage"}}))
		if p := e.attribute(url, types.QueueAttributeNamePolicy); !strings.Contains(p, `"peer"`) || !strings.Contains(p, "123456789012") {
			e.Errorf("policy is %s", p)
		}
		must[*sqs.RemovePermissionOutput](e)(e.RemovePermission(e.ctx(), &sqs.RemovePermissionInput{QueueUrl: url, Label: aws.String("peer")}))
		_, err := e.RemovePermission(e.ctx(), &sqs.RemovePermissionInput{QueueUrl: url, Label: aws.String("peer")})
		coded(e, err, "InvalidParameterValue")
		if err := e.set(url, "KmsMasterKeyId", "alias/aws/sqs", "KmsDataKeyReusePeriodSeconds", "600"); err != nil {
			e.Error(err)
		}
		if e.attribute(url, types.QueueAttributeNameKmsMasterKeyId) != "alias/aws/sqs" {
			e.Error("the key is not recorded")
		}
	}},
}
