package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// queuePages bounds the listing: a thousand queues a page.
const queuePages = 5

// queueURLs finds the queues whose names begin with a prefix, by name.
func queueURLs(ctx context.Context, api Queues, prefix string) (map[string]string, error) {
	urls := map[string]string{}
	in := &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: aws.Int32(1000)}
	for range queuePages {
		out, err := api.ListQueues(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, u := range out.QueueUrls {
			urls[path.Base(u)] = u
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return urls, nil
		}
	}
	return nil, errors.New("too many queues begin with " + prefix)
}

func (l *look) queues(ctx context.Context) {
	urls, err := queueURLs(ctx, l.Account.Queues, stackName(l.Env, ""))
	if err != nil {
		l.unseen(PartQueues, "all queues", err)
		return
	}
	policies := l.resources("AWS::SQS::QueuePolicy")
	for _, w := range l.resources("AWS::SQS::Queue") {
		name := w.text("QueueName")
		policy := policies[slices.IndexFunc(policies, func(p wanted) bool { return p.id == w.id+"Policy" })]
		if urls[name] == "" {
			l.missing(PartQueues, w, name, createQueue(w, policy))
			continue
		}
		found, err := queueAttributes(ctx, l.Account.Queues, urls[name])
		if errors.As(err, new(*types.QueueDoesNotExist)) {
			l.missing(PartQueues, w, name, createQueue(w, policy))
			continue
		} else if err != nil {
			l.unseen(PartQueues, name, err)
			continue
		}
		l.compare(PartQueues, w, name, found, func(d difference) string { return setAttribute(w, policy, urls[name], d) })
		l.compare(PartQueues, policy, name, found, func(difference) string { return setPolicy(policy, urls[name]) })
	}
}

// queueAttributes are a queue's attributes as the properties of its resource are, and its policy.
func queueAttributes(ctx context.Context, api Queues, url string) (map[string]any, error) {
	out, err := api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return nil, err
	}
	found := map[string]any{"QueueName": path.Base(url)}
	for name, value := range out.Attributes {
		found[name] = value
		var inner any
		if strings.HasPrefix(value, "{") && json.Unmarshal([]byte(value), &inner) == nil {
			found[name] = inner
		}
	}
	if policy, ok := found["Policy"]; ok {
		found["PolicyDocument"] = normal(policy)
	}
	return found, nil
}

// normal is a policy document in one of the forms that mean the same: lists for single values, and one way to say anyone.
func normal(document any) any {
	m, ok := document.(map[string]any)
	if !ok {
		return document
	}
	statements := listed(m["Statement"])
	for i, s := range statements {
		statements[i] = normalStatement(s)
	}
	return map[string]any{"Version": m["Version"], "Statement": statements}
}

func normalStatement(s any) any {
	m, ok := s.(map[string]any)
	if !ok {
		return s
	}
	out := map[string]any{}
	for name, value := range m {
		switch name {
		case "Action", "Resource":
			out[name] = listed(value)
		case "Principal":
			if value == "*" {
				value = map[string]any{"AWS": "*"}
			}
			out[name] = listedValues(value)
		default:
			out[name] = value
		}
	}
	return out
}

// listedValues are principals, of which each kind may name one or several.
func listedValues(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for name, value := range m {
		out[name] = listed(value)
	}
	return out
}

func listed(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clone(v)
	}
	return []any{v}
}
