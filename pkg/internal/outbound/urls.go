package outbound

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// urls remembers the address of each queue, which never changes while it exists.
type urls struct {
	api   API
	mu    sync.Mutex
	known map[string]string
}

func (u *urls) get(ctx context.Context, queue string) (string, error) {
	u.mu.Lock()
	url, ok := u.known[queue]
	u.mu.Unlock()
	if ok {
		return url, nil
	}
	out, err := u.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		return "", fmt.Errorf("find queue %s: %w", queue, err)
	}
	url = aws.ToString(out.QueueUrl)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known = map[string]string{}
	}
	u.known[queue] = url
	return url, nil
}

// forget makes the next get ask again, for a queue that was deleted and made anew.
func (u *urls) forget(queue string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, queue)
}
