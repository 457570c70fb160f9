package doctor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/stagefleet/stagefleet/pkg/doctor"
	"github.com/stagefleet/stagefleet/pkg/internal/awshttp"
	"github.com/stagefleet/stagefleet/pkg/localsqs"
	"github.com/stagefleet/stagefleet/workers"
)

// live is an account over the wire: AWS's protocols in front of deployed resources. Queues are those of the embedded SQS
// server; the rest is answered from the properties as they are when they are asked for.
type live struct {
	resources []*resource
	queues    *localsqs.Server
	account   doctor.Account
	client    *sqs.Client
	address   string                                           // of its services
	date      func(http.Header)                                // changes the answers' time
	fail      func(operation string) (status int, code string) // makes a call fail
	edit      func(operation string, answer map[string]any)    // changes an answer that no property decides
	silent    func(metric string) bool                         // metrics without values
	mu        sync.Mutex
	calls     []string
}

// newLive deploys the templates, changed as asked, and serves the account.
func newLive(t testing.TB, change func([]*resource)) *live {
	t.Helper()
	a := &live{resources: deployed(t)}
	if change != nil {
		change(a.resources)
	}
	a.queues = localsqs.New(localsqs.Options{Region: region, Account: account})
	t.Cleanup(func() { a.queues.Close() })
	a.makeQueues(t)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.address = server.URL
	a.account, a.client = doctor.NewAccount(config(server.URL)), sqs.NewFromConfig(config(server.URL))
	return a
}

// transport is that of all clients of the project, and keeps the connections of all tests.
var transport = &http.Client{Transport: awshttp.Transport()}

func config(address string) aws.Config {
	return aws.Config{Region: region, BaseEndpoint: &address, RetryMaxAttempts: 1, HTTPClient: transport,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "any"}, nil
		})}
}

// look is what the doctor says of the account.
func (a *live) look(t testing.TB, change ...func(*doctor.Config)) doctor.Report {
	t.Helper()
	c := doctor.Config{Pipeline: workers.Stages, Env: "prod", Region: region, Account: a.account,
		Schema: func(context.Context) error { return nil }}
	for _, f := range change {
		f(&c)
	}
	report, err := doctor.Look(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// makeQueues makes the queues with the real SDK, and sets their attributes as CloudFormation would.
func (a *live) makeQueues(t testing.TB) {
	t.Helper()
	web := httptest.NewServer(a.queues)
	defer web.Close()
	client := sqs.NewFromConfig(config(web.URL))
	urls := map[string]*string{}
	for _, last := range []bool{false, true} { // dead letters first
		for _, r := range a.resources {
			if r.kind != "AWS::SQS::Queue" || (r.properties["RedrivePolicy"] != nil) != last {
				continue
			}
			attributes := map[string]string{}
			for name, value := range r.properties {
				if name != "QueueName" && name != "Tags" {
					attributes[name] = text(value)
				}
			}
			out, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(r.properties["QueueName"].(string)), Attributes: attributes})
			if err != nil {
				t.Fatalf("%s: %v", r.id, err)
			}
			urls[r.id] = out.QueueUrl
		}
	}
	for _, r := range a.resources {
		if r.kind != "AWS::SQS::QueuePolicy" || urls[strings.TrimSuffix(r.id, "Policy")] == nil {
			continue
		}
		_, err := client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: urls[strings.TrimSuffix(r.id, "Policy")],
			Attributes: map[string]string{"Policy": text(r.properties["PolicyDocument"])}})
		if err != nil {
			t.Fatalf("%s: %v", r.id, err)
		}
	}
}

// url finds a live queue.
func (a *live) url(t testing.TB, queue string) *string {
	t.Helper()
	out, err := a.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		t.Fatal(err)
	}
	return out.QueueUrl
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func (a *live) of(kind string) []*resource {
	return slices.DeleteFunc(slices.Clone(a.resources), func(r *resource) bool { return r.kind != kind })
}

// ServeHTTP tells the protocols apart.
func (a *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	operation := r.Header.Get("X-Amz-Target")
	switch {
	case operation != "":
	case strings.HasPrefix(r.URL.Path, "/service/"):
		operation = strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/service/"), "/operation/", ".")
	case r.Method == http.MethodPost:
		form, _ := url.ParseQuery(string(body))
		operation = "Query." + form.Get("Action")
	default:
		operation = r.Method + " " + r.URL.RawQuery
	}
	a.mu.Lock()
	a.calls = append(a.calls, operation)
	a.mu.Unlock()
	if a.date != nil {
		a.date(w.Header())
	}
	if a.fail != nil {
		if status, code := a.fail(operation); status != 0 {
			fault(w, operation, status, code)
			return
		}
	}
	switch {
	case strings.HasPrefix(operation, "AmazonSQS."):
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		a.queues.ServeHTTP(w, r)
	case strings.HasPrefix(operation, "Query."):
		form, _ := url.ParseQuery(string(body))
		a.query(w, form)
	case r.Method == http.MethodGet:
		a.s3(w, r.URL.RawQuery)
	case r.Method == http.MethodPut:
		a.writeS3(w, r.URL.RawQuery, body)
	default:
		a.json(w, operation, body)
	}
}

// speaksCBOR tells CloudWatch and the tagging API from the services that speak JSON.
func speaksCBOR(operation string) bool {
	return strings.HasPrefix(operation, "Granite") || strings.HasPrefix(operation, "ResourceGroupsTaggingAPI_")
}

// fault is an error in the protocol of the operation.
func fault(w http.ResponseWriter, operation string, status int, code string) {
	switch {
	case strings.HasPrefix(operation, "Query."):
		w.WriteHeader(status)
		fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>", code)
	case strings.HasPrefix(operation, "GET "):
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
	case speaksCBOR(operation):
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		w.WriteHeader(status)
		_, _ = w.Write(cbor.Encode(cbor.Map{"__type": cbor.String(code), "message": cbor.String("no")}))
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, code)
	}
}

// json answers the services that speak JSON or CBOR.
func (a *live) json(w http.ResponseWriter, operation string, body []byte) {
	_, name, _ := strings.Cut(operation, ".")
	in := map[string]any{}
	if speaksCBOR(operation) {
		v, err := cbor.Decode(body)
		if err != nil {
			panic(err)
		}
		in = fromCBOR(v).(map[string]any)
	} else if err := json.Unmarshal(body, &in); err != nil {
		panic(err)
	}
	answers := map[string]func(map[string]any) map[string]any{
		"DescribeAlarms": a.describeAlarms, "GetMetricData": a.metricData, "DescribeClusters": a.describeClusters,
		"DescribeServices": a.describeServices, "DescribeTaskDefinition": a.describeTaskDefinition,
		"DescribeScalableTargets": a.scalableTargets, "DescribeScalingPolicies": a.scalingPolicies, "GetParameter": a.parameter,
		"DescribeLogGroups": a.logGroups, "GetResources": a.tagged,
	}
	maps.Copy(answers, a.writes())
	answer := answers[name]
	if answer == nil {
		fault(w, operation, http.StatusBadRequest, "UnknownOperationException")
		return
	}
	out := answer(in)
	if out == nil {
		fault(w, operation, http.StatusBadRequest, "ParameterNotFound")
		return
	}
	if a.edit != nil {
		a.edit(name, out)
	}
	if speaksCBOR(operation) {
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		if len(out) > 0 { // without anything to say there is no body
			w.Header().Set("Content-Type", "application/cbor")
			_, _ = w.Write(cbor.Encode(toCBOR(out)))
		}
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

// alarmsPerPage is CloudWatch's.
const alarmsPerPage = 100

func (a *live) describeAlarms(in map[string]any) map[string]any {
	prefix := in["AlarmNamePrefix"].(string)
	var all []*resource
	for _, r := range a.resources {
		if name, _ := r.properties["AlarmName"].(string); name != "" && strings.HasPrefix(name, prefix) {
			all = append(all, r)
		}
	}
	from := 0
	if token, _ := in["NextToken"].(string); token != "" {
		_, _ = fmt.Sscan(token, &from)
	}
	page := all[from:min(from+alarmsPerPage, len(all))]
	out := map[string]any{"MetricAlarms": []any{}, "CompositeAlarms": []any{}}
	for _, r := range page {
		alarm := map[string]any{"ActionsEnabled": true, "StateValue": "OK"}
		for name, v := range r.properties {
			if name != "Tags" {
				alarm[name] = v
			}
		}
		list := "CompositeAlarms"
		if r.kind == "AWS::CloudWatch::Alarm" {
			list = "MetricAlarms"
			alarm["Threshold"] = float64Of(alarm["Threshold"])
		}
		out[list] = append(out[list].([]any), alarm)
	}
	if from+alarmsPerPage < len(all) {
		out["NextToken"] = fmt.Sprint(from + alarmsPerPage)
	}
	return out
}

func float64Of(v any) float64 {
	var f float64
	_, _ = fmt.Sscan(fmt.Sprint(v), &f)
	return f
}

func (a *live) metricData(in map[string]any) map[string]any {
	var results []any
	for _, q := range in["MetricDataQueries"].([]any) {
		query := q.(map[string]any)
		metric := query["MetricStat"].(map[string]any)["Metric"].(map[string]any)
		values := []any{1.0}
		if a.silent != nil && a.silent(text(metric)) {
			values = []any{}
		}
		results = append(results, map[string]any{"Id": query["Id"], "Values": values, "StatusCode": "Complete"})
	}
	return map[string]any{"MetricDataResults": results}
}

func (a *live) describeClusters(map[string]any) map[string]any {
	clusters := []any{}
	for _, r := range a.of("AWS::ECS::Cluster") {
		c := lowered(r.properties).(map[string]any)
		c["settings"], c["status"] = c["clusterSettings"], "ACTIVE"
		clusters = append(clusters, c)
	}
	return map[string]any{"clusters": clusters}
}

func (a *live) describeServices(in map[string]any) map[string]any {
	services := []any{}
	if len(in["services"].([]any)) > 10 {
		panic("more than ten services in a call")
	}
	for _, r := range a.of("AWS::ECS::Service") {
		if !slices.Contains(in["services"].([]any), r.properties["ServiceName"]) {
			continue
		}
		s := lowered(r.properties).(map[string]any)
		if s["desiredCount"] == nil {
			s["desiredCount"] = 1
		}
		s["status"], s["runningCount"] = "ACTIVE", s["desiredCount"]
		s["taskDefinition"] = "arn:aws:ecs:" + region + ":" + account + ":task-definition/stagefleet-prod-" + text(s["serviceName"]) + ":7"
		services = append(services, s)
	}
	return map[string]any{"services": services}
}

func (a *live) describeTaskDefinition(in map[string]any) map[string]any {
	for _, r := range a.of("AWS::ECS::TaskDefinition") {
		if strings.HasSuffix(in["taskDefinition"].(string), "/"+text(r.properties["Family"])+":7") {
			d := lowered(r.properties).(map[string]any)
			tags := d["tags"]
			delete(d, "tags")
			return map[string]any{"taskDefinition": d, "tags": tags}
		}
	}
	return nil
}

func (a *live) scalableTargets(in map[string]any) map[string]any {
	targets := []any{}
	for _, r := range a.of("AWS::ApplicationAutoScaling::ScalableTarget") {
		if slices.Contains(in["ResourceIds"].([]any), r.properties["ResourceId"]) {
			t := map[string]any{"SuspendedState": map[string]any{"DynamicScalingInSuspended": false, "DynamicScalingOutSuspended": false, "ScheduledScalingSuspended": false}}
			for name, v := range r.properties {
				t[name] = v
			}
			targets = append(targets, t)
		}
	}
	return map[string]any{"ScalableTargets": targets}
}

func (a *live) scalingPolicies(in map[string]any) map[string]any {
	policies := []any{}
	for _, r := range a.of("AWS::ApplicationAutoScaling::ScalingPolicy") {
		if strings.HasSuffix(in["ResourceId"].(string), "/"+strings.TrimPrefix(r.stack, "stage-")) {
			policies = append(policies, r.properties)
		}
	}
	return map[string]any{"ScalingPolicies": policies}
}

func (a *live) parameter(map[string]any) map[string]any {
	for _, r := range a.of("AWS::SSM::Parameter") {
		return map[string]any{"Parameter": map[string]any{"Name": r.properties["Name"], "Type": r.properties["Type"], "Value": r.properties["Value"]}}
	}
	return nil
}

func (a *live) logGroups(map[string]any) map[string]any {
	groups := []any{}
	for _, r := range a.of("AWS::Logs::LogGroup") {
		groups = append(groups, map[string]any{"logGroupName": r.properties["LogGroupName"], "retentionInDays": r.properties["RetentionInDays"]})
	}
	return map[string]any{"logGroups": groups}
}
