package localsqs_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

// A server is an http.Handler: any SQS client that is given the address as its endpoint can use it.
func ExampleServer() {
	server := localsqs.New(localsqs.Options{})
	defer server.Close()
	web := httptest.NewServer(server)
	defer web.Close()
	client := sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &web.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		}),
	})
	queue, err := client.CreateQueue(context.Background(), &sqs.CreateQueueInput{QueueName: aws.String("jobs")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println((*queue.QueueUrl)[len(web.URL):])
	// Output: /000000000000/jobs
}

// Every third delete or so is done, but its reply is lost; the first receive of the queue jobs is throttled.
func ExampleParseFaults() {
	faults, err := localsqs.ParseFaults("lose:action=DeleteMessage,share=0.33; throttle:action=ReceiveMessage,queue=jobs,nth=1; seed=7")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := localsqs.New(localsqs.Options{Faults: faults})
	defer server.Close()
	fmt.Println(len(faults.Rules), "rules")
	// Output: 2 rules
}
