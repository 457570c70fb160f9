package doctor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/stagefleet/stagefleet/pkg/doctor"
)

// commandsOf splits a line into its commands and their words as a shell does. What $( ) gives, inner says.
func commandsOf(line string, inner func(string) (string, error)) ([][]string, error) {
	var all [][]string
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("a quote is not closed: %s", line)
			}
			word.WriteString(line[i+1 : i+1+end])
			inWord, i = true, i+1+end
		case strings.HasPrefix(line[i:], `"$(`):
			end := strings.Index(line[i:], `)"`)
			if end < 0 {
				return nil, fmt.Errorf("a substitution is not closed: %s", line)
			}
			said, err := inner(line[i+3 : i+end])
			if err != nil {
				return nil, err
			}
			word.WriteString(said)
			inWord, i = true, i+end+1
		case c == '\\':
			i++
			word.WriteByte(line[i])
			inWord = true
		case c == '#' && !inWord:
			endCommand()
			return all, nil
		case c == ';' || strings.HasPrefix(line[i:], "&&"):
			endCommand()
			i += strings.IndexFunc(line[i:], func(r rune) bool { return r != '&' && r != ';' }) - 1
		case c == ' ':
			endWord()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	endCommand()
	return all, nil
}

// clients are the services of the AWS command line by its names for them.
func (a *live) clients() map[string]any {
	cfg := config(a.address)
	return map[string]any{
		"sqs": sqs.NewFromConfig(cfg), "cloudwatch": cloudwatch.NewFromConfig(cfg), "ecs": ecs.NewFromConfig(cfg), "ssm": ssm.NewFromConfig(cfg),
		"application-autoscaling": applicationautoscaling.NewFromConfig(cfg), "logs": cloudwatchlogs.NewFromConfig(cfg), "iam": iam.NewFromConfig(cfg),
		"resourcegroupstaggingapi": resourcegroupstaggingapi.NewFromConfig(cfg), "s3api": s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }),
	}
}

func pascal(kebab string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(kebab, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// mend runs the commands of findings against the account, as the AWS command line would, through the SDK's own types: what is
// no service, operation or parameter, or lacks one that is required, fails.
func (a *live) mend(t testing.TB, findings []doctor.Finding) {
	t.Helper()
	for _, f := range findings {
		commands, err := commandsOf(f.Mend, a.substitute)
		if err != nil || len(commands) == 0 {
			t.Errorf("%s %s: %q is no command: %v", f.Resource, f.Field, f.Mend, err)
		}
		for _, words := range commands {
			if err := a.run(words); err != nil {
				t.Errorf("%s %s: %q: %v", f.Resource, f.Field, f.Mend, err)
			}
		}
	}
}

// substitute answers the only question that commands ask within commands: for the task definition that a stack has made.
func (a *live) substitute(command string) (string, error) {
	m := regexp.MustCompile(`^aws cloudformation describe-stacks --stack-name stagefleet-prod-(\S+) --query "Stacks\[0\]\.Outputs\[\?OutputKey=='TaskDefinition'\]\.OutputValue" --output text$`).FindStringSubmatch(command)
	if m == nil {
		return "", fmt.Errorf("nobody knows what %q says", command)
	}
	return "task definition of " + m[1], nil
}

func (a *live) run(words []string) error {
	switch {
	case words[0] != "aws" || len(words) < 3:
		return a.runOther(words)
	case words[1] == "cloudformation":
		return a.cloudformation(words[2], words[3:])
	}
	client, known := a.clients()[words[1]]
	if !known {
		return fmt.Errorf("there is no service %s", words[1])
	}
	method := reflect.ValueOf(client).MethodByName(pascal(words[2]))
	if !method.IsValid() {
		return fmt.Errorf("%s has no operation %s", words[1], words[2])
	}
	input := reflect.New(method.Type().In(1).Elem())
	if err := setFlags(input.Elem(), words[3:]); err != nil {
		return err
	}
	out := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), input})
	if err, failed := out[1].Interface().(error); failed {
		return err
	}
	return nil
}

// runOther knows the commands that are not AWS's.
func (a *live) runOther(words []string) error {
	switch {
	case words[0] == "deploy/deploy.sh" && len(words) == 3 && words[1] == "restore":
		return a.again(words[2]) // as if the change set that it shows were executed
	case !slices.Contains([]string{"fleet", "sudo"}, words[0]):
		return fmt.Errorf("%s is no program that anybody knows", words[0])
	}
	return nil
}

// cloudformation deploys a stack from the committed templates: all of it is as they say afterwards. One that was deployed from
// them before it leaves alone, as CloudFormation does.
func (a *live) cloudformation(operation string, args []string) error {
	flags := map[string][]string{}
	last := ""
	for _, w := range args {
		if name, ok := strings.CutPrefix(w, "--"); ok {
			last = name
		} else {
			flags[last] = append(flags[last], w)
		}
	}
	stack := strings.TrimPrefix(strings.Join(flags["stack-name"], ""), "stagefleet-prod-")
	if operation != "deploy" || fmt.Sprint(flags["template-file"]) != "[deploy/"+stack+".yaml]" || fmt.Sprint(flags["capabilities"]) != "[CAPABILITY_IAM]" {
		return fmt.Errorf("cloudformation %s %v", operation, flags)
	}
	if a.manifestOf(a.resources, stack) == a.manifestOf(original, stack) {
		return fmt.Errorf("no changes to deploy: the stack %s is up to date", stack)
	}
	return a.again(stack)
}

// manifestOf is the manifest that the service of a stack was deployed from; stacks without a service have one of no manifest.
func (a *live) manifestOf(all []*resource, stack string) string {
	for _, r := range all {
		if r.stack != stack || r.kind != "AWS::ECS::Service" {
			continue
		}
		for _, t := range r.properties["Tags"].([]any) {
			if tag := t.(map[string]any); tag["Key"] == "manifest" {
				return fmt.Sprint(tag["Value"])
			}
		}
	}
	return ""
}

// again makes everything of a stack what its template says.
func (a *live) again(stack string) error {
	found := false
	for _, r := range original {
		if r.stack == stack {
			found = true
			there := false
			for _, mine := range a.resources {
				if mine.stack == stack && mine.id == r.id {
					there = true
					mine.properties = copied(r.properties).(map[string]any)
				}
			}
			if !there {
				own := *r
				own.properties = copied(r.properties).(map[string]any)
				a.resources = append(a.resources, &own)
			}
		}
	}
	if !found {
		return fmt.Errorf("there is no stack %q", stack)
	}
	return nil
}

// setFlags fills an operation's input.
func setFlags(input reflect.Value, args []string) error {
	for i := 0; i < len(args); {
		name, ok := strings.CutPrefix(args[i], "--")
		if !ok {
			return fmt.Errorf("%q belongs to no parameter", args[i])
		}
		n := i + 1
		for n < len(args) && !strings.HasPrefix(args[n], "--") {
			n++
		}
		if err := setFlag(input, name, args[i+1:n]); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		i = n
	}
	return nil
}

func setFlag(input reflect.Value, name string, values []string) error {
	if name == "query" || name == "output" { // what is shown of the answer
		return nil
	}
	if name == "cli-input-json" {
		return json.Unmarshal([]byte(strings.Join(values, " ")), input.Addr().Interface())
	}
	field := fieldOf(input, pascal(name))
	if !field.IsValid() {
		for _, no := range []string{"no-", "disable-"} { // the latter is the command line's own name for it, of ECS
			if rest, negative := strings.CutPrefix(name, no); negative {
				field = fieldOf(input, pascal(strings.Replace(no+rest, "disable-", "enable-", 1)))
				values = []string{"false"}
			}
		}
	}
	if !field.IsValid() {
		return fmt.Errorf("%s has no such parameter", input.Type().Name())
	}
	if len(values) == 0 {
		values = []string{"true"}
	}
	raw, err := jsonOf(field.Type(), values)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, field.Addr().Interface())
}

func fieldOf(input reflect.Value, name string) reflect.Value {
	return input.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
}

// jsonOf reads the values of a parameter: JSON, or the command line's own short form.
func jsonOf(of reflect.Type, values []string) ([]byte, error) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	text := strings.Join(values, " ")
	isJSON := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
	switch of.Kind() {
	case reflect.String:
		return json.Marshal(text)
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return []byte(text), nil
	case reflect.Slice:
		if isJSON {
			return []byte(text), nil
		}
		var items []json.RawMessage
		for _, v := range values {
			item, err := jsonOf(of.Elem(), []string{v})
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return json.Marshal(items)
	case reflect.Map, reflect.Struct:
		if isJSON {
			return []byte(text), nil
		}
		return short(of, text)
	default:
		return nil, fmt.Errorf("nobody knows how to write a %v", of)
	}
}

// short reads NAME=VALUE,NAME=VALUE.
func short(of reflect.Type, text string) ([]byte, error) {
	m := map[string]any{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no NAME=VALUE", pair)
		}
		m[name] = value
		if of.Kind() == reflect.Struct {
			field, known := of.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
			if !known {
				return nil, fmt.Errorf("%v has no %s", of, name)
			}
			if kind := field.Type; kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.Bool {
				m[name], _ = strconv.ParseBool(value)
			}
		}
	}
	return json.Marshal(m)
}

func TestACommandThatTheServiceWouldNotTakeFailsTheTest(t *testing.T) {
	a := newLive(t, nil)
	for _, line := range []string{
		"aws sqsx set-queue-attributes", "aws sqs set-queue-attribute --queue-url u", "aws sqs set-queue-attributes --queue-uri u",
		"aws sqs set-queue-attributes --attributes '{}'", "aws ssm put-parameter --value true", "aws ecs update-service --cluster c",
		"aws cloudformation deploy --stack-name stagefleet-prod-gone --template-file deploy/gone.yaml --capabilities CAPABILITY_IAM", "rm -rf x", "aws sqs get-queue-url --queue-name 'x",
	} {
		commands, err := commandsOf(line, a.substitute)
		for _, words := range commands {
			err = a.run(words)
		}
		if err == nil {
			t.Errorf("%s passes", line)
		}
	}
}
