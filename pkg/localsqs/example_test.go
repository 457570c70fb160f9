package localsqs_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

// A server is an http.Handler: any SQS client that is given the address as its endpoint can use it.
func ExampleServer() {
	server := localsqs.New(localsqs.Options{})
	defer server.Close()
	web := httptest.NewServer(server)
	defer web.Close()
	fmt.Println("AWS_ENDPOINT_URL_SQS=" + web.URL[:len("http://127.0.0.1")])
	// Output: AWS_ENDPOINT_URL_SQS=http://127.0.0.1
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
