package queuetest_test

import (
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stagefleet/stagefleet/pkg/internal/queuetest"
)

// prefixVariable turns the run against AWS on. The account in force is used, and every queue that is made is deleted.
const prefixVariable = "STAGEFLEET_AWS_QUEUE_PREFIX"

func TestAWSBehavesAsDescribed(t *testing.T) {
	prefix := os.Getenv(prefixVariable)
	if prefix == "" {
		t.Skip("set " + prefixVariable + " and AWS credentials to run against AWS")
	}
	conf, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queuetest.Run(t, queuetest.Target{
		Open:     func(*testing.T) *sqs.Client { return sqs.NewFromConfig(conf) },
		Prefix:   prefix,
		Patience: 2,
		Longest:  2 * time.Minute,
	})
}
