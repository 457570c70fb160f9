package localsqs

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of queue attributes, from the SQS API reference, CreateQueue.
const (
	maxVisibility   = 43_200 // seconds, counted from the receive
	maxDelay        = 900    // seconds
	maxWait         = 20     // seconds
	maxMessageBytes = 1 << 20
	minMessageBytes = 1 << 10
	minRetention    = 60        // seconds
	maxRetention    = 1_209_600 // seconds
	maxReceiveLimit = 1_000
	maxDLQSources   = 10
)

// settings are a queue's attributes, as given and as understood.
type settings struct {
	given       map[string]string // settable attributes, defaults filled in
	visibility  time.Duration
	delay       time.Duration
	wait        time.Duration
	retention   time.Duration
	maxBytes    int
	contentHash bool
	perGroup    bool // deduplication scope is the message group
	redrive     *redrivePolicy
	allow       redriveAllow
}

type redrivePolicy struct {
	target      string // ARN of the dead-letter queue
	maxReceives int32
}

type redriveAllow struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns"`
}

func (a redriveAllow) allows(source string) bool {
	switch a.Permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(a.Sources, source)
	}
	return true
}

// numberAttribute bounds one attribute that is a whole number.
type numberAttribute struct{ min, max int }

var numberAttributes = map[string]numberAttribute{
	"DelaySeconds":                  {0, maxDelay},
	"MaximumMessageSize":            {minMessageBytes, maxMessageBytes},
	"MessageRetentionPeriod":        {minRetention, maxRetention},
	"ReceiveMessageWaitTimeSeconds": {0, maxWait},
	"VisibilityTimeout":             {0, maxVisibility},
	"KmsDataKeyReusePeriodSeconds":  {60, 86_400},
}

// choiceAttributes are those with a fixed set of values; the FIFO ones are unknown to a standard queue.
var choiceAttributes = map[string][]string{
	"SqsManagedSseEnabled":      {"true", "false"},
	"FifoQueue":                 {"true"},
	"ContentBasedDeduplication": {"true", "false"},
	"DeduplicationScope":        {"queue", "messageGroup"},
	"FifoThroughputLimit":       {"perQueue", "perMessageGroupId"},
}

var fifoAttributes = []string{"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}

func defaultAttributes(fifo bool) map[string]string {
	d := map[string]string{
		"DelaySeconds": "0", "MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600",
		"ReceiveMessageWaitTimeSeconds": "0", "VisibilityTimeout": "30", "SqsManagedSseEnabled": "true",
	}
	if fifo {
		d["FifoQueue"], d["ContentBasedDeduplication"] = "true", "false"
		d["DeduplicationScope"], d["FifoThroughputLimit"] = "queue", "perQueue"
	}
	return d
}

// with returns the settings that result from changing the given attributes; nothing is changed when it fails.
// An empty value removes the attributes that have no default.
func (s settings) with(changes map[string]string, fifo bool) (settings, error) {
	next := settings{given: maps.Clone(s.given)}
	for name, value := range changes {
		if err := checkAttribute(name, value, fifo); err != nil {
			return s, err
		}
		if value == "" {
			delete(next.given, name)
		} else {
			next.given[name] = value
		}
	}
	if changes["KmsMasterKeyId"] != "" && changes["SqsManagedSseEnabled"] == "" {
		next.given["SqsManagedSseEnabled"] = "false"
	}
	if err := next.understand(fifo); err != nil {
		return s, err
	}
	return next, nil
}

func checkAttribute(name, value string, fifo bool) error {
	if slices.Contains(fifoAttributes, name) && !fifo {
		return errInvalidAttributeName(name)
	}
	if bounds, ok := numberAttributes[name]; ok {
		n, err := strconv.Atoi(value)
		if err != nil || n < bounds.min || n > bounds.max {
			return errInvalidAttributeValue(name, "Must be a whole number from %d to %d.", bounds.min, bounds.max)
		}
		return nil
	}
	if choices, ok := choiceAttributes[name]; ok {
		if !slices.Contains(choices, value) {
			return errInvalidAttributeValue(name, "Must be one of %s.", strings.Join(choices, ", "))
		}
		return nil
	}
	switch name {
	case "KmsMasterKeyId", "RedrivePolicy", "RedriveAllowPolicy":
		return nil
	case "Policy":
		if value != "" && !json.Valid([]byte(value)) {
			return errInvalidAttributeValue(name, "Must be a JSON document.")
		}
		return nil
	}
	return errInvalidAttributeName(name)
}

// understand fills the parsed fields from the given attributes.
func (s *settings) understand(fifo bool) error {
	seconds := func(name string) time.Duration {
		n, _ := strconv.Atoi(s.given[name])
		return time.Duration(n) * time.Second
	}
	s.visibility, s.delay = seconds("VisibilityTimeout"), seconds("DelaySeconds")
	s.wait, s.retention = seconds("ReceiveMessageWaitTimeSeconds"), seconds("MessageRetentionPeriod")
	s.maxBytes, _ = strconv.Atoi(s.given["MaximumMessageSize"])
	s.contentHash = s.given["ContentBasedDeduplication"] == "true"
	s.perGroup = s.given["DeduplicationScope"] == "messageGroup"
	if fifo && s.given["FifoThroughputLimit"] == "perMessageGroupId" && !s.perGroup {
		return errInvalidAttributeValue("FifoThroughputLimit", "perMessageGroupId needs DeduplicationScope messageGroup.")
	}
	var err error
	if s.redrive, err = parseRedrive(s.given["RedrivePolicy"]); err != nil {
		return err
	}
	s.allow, err = parseRedriveAllow(s.given["RedriveAllowPolicy"])
	return err
}

func parseRedrive(text string) (*redrivePolicy, error) {
	if text == "" {
		return nil, nil
	}
	var raw struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"` // a number, or the same as a string
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, errInvalidAttributeValue("RedrivePolicy", "Redrive policy is not a valid JSON map.")
	}
	if raw.Target == "" || len(raw.Max) == 0 {
		return nil, errInvalidAttributeValue("RedrivePolicy", "Redrive policy needs deadLetterTargetArn and maxReceiveCount.")
	}
	n, err := strconv.ParseInt(strings.Trim(string(raw.Max), `"`), 10, 32)
	if err != nil || n < 1 || n > maxReceiveLimit {
		return nil, errInvalidAttributeValue("RedrivePolicy", "Invalid value for maxReceiveCount, valid values are from 1 to %d both inclusive.", maxReceiveLimit)
	}
	return &redrivePolicy{target: raw.Target, maxReceives: int32(n)}, nil
}

func parseRedriveAllow(text string) (redriveAllow, error) {
	var allow redriveAllow
	if text == "" {
		return allow, nil
	}
	if err := json.Unmarshal([]byte(text), &allow); err != nil {
		return allow, errInvalidAttributeValue("RedriveAllowPolicy", "Redrive allow policy is not a valid JSON map.")
	}
	switch byQueue := allow.Permission == "byQueue"; {
	case !byQueue && allow.Permission != "allowAll" && allow.Permission != "denyAll":
		return allow, errInvalidAttributeValue("RedriveAllowPolicy", "redrivePermission must be allowAll, denyAll or byQueue.")
	case byQueue && (len(allow.Sources) == 0 || len(allow.Sources) > maxDLQSources):
		return allow, errInvalidAttributeValue("RedriveAllowPolicy", "byQueue needs 1 to %d sourceQueueArns.", maxDLQSources)
	case !byQueue && len(allow.Sources) > 0:
		return allow, errInvalidAttributeValue("RedriveAllowPolicy", "sourceQueueArns is allowed with byQueue only.")
	}
	return allow, nil
}
