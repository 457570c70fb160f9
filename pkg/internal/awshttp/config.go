package awshttp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdkhttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Config returns the AWS configuration of the environment with a transport as Transport's. The SDK takes the certificates
// of AWS_CA_BUNDLE into its own kind of client only, so the transport is wrapped after it has done so.
func Config(ctx context.Context) (aws.Config, error) {
	client := sdkhttp.NewBuildableClient().WithTransportOptions(tune)
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w", err)
	}
	if built, ok := cfg.HTTPClient.(*sdkhttp.BuildableClient); ok {
		client = built
	}
	cfg.HTTPClient = &http.Client{Transport: ownBody{client.GetTransport()}}
	return cfg, nil
}
