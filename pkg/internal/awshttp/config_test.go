package awshttp_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
)

func TestTheCertificatesOfTheEnvironmentAreTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte(`{"QueueUrls":["q"]}`))
	}))
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_CA_BUNDLE": bundle, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a",
		"AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL_SQS": server.URL} {
		t.Setenv(name, value)
	}
	cfg, err := awshttp.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }).ListQueues(t.Context(), &sqs.ListQueuesInput{})
	if err != nil || len(out.QueueUrls) != 1 {
		t.Errorf("through the bundle: %v, %v", out, err)
	}
}
