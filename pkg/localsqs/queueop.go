package localsqs

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Waiting times of the API. Sources: SQS API reference, DeleteQueue, CreateQueue and PurgeQueue.
const (
	recreateInterval = 60 * time.Second
	purgeInterval    = 60 * time.Second
)

const maxTags = 50

type createInput struct {
	QueueName  string
	Attributes map[string]string
	Tags       map[string]string `json:"tags"`
}

type urlOutput struct{ QueueUrl string }

var queueName = regexp.MustCompile(`^[a-zA-Z0-9_-]+(\.fifo)?$`)

const maxQueueName = 80

func createQueue(s *Server, c *call, in *createInput, now int64) (any, error) {
	fifo := strings.HasSuffix(in.QueueName, ".fifo")
	if len(in.QueueName) > maxQueueName || !queueName.MatchString(in.QueueName) {
		return nil, invalidParameter("Can only include alphanumeric characters, hyphens, or underscores. 1 to %d in length", maxQueueName)
	}
	if fifo != (in.Attributes["FifoQueue"] == "true") {
		return nil, invalidParameter("The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to %d in length, and needs the attribute FifoQueue true.", maxQueueName)
	}
	set, err := settings{given: defaultAttributes(fifo)}.with(in.Attributes, fifo)
	if err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	if q := s.queues[in.QueueName]; q != nil {
		return s.recreate(c, q, in.Attributes)
	}
	if at, ok := s.deleted[in.QueueName]; ok && now < at+int64(recreateInterval) {
		return nil, prefixed("QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	if err := s.checkRedrive(in.QueueName, fifo, set); err != nil {
		return nil, err
	}
	q := newQueue(s, in.QueueName, fifo, set)
	q.id, q.created, q.modified = newQueueID(), now, now
	maps.Copy(q.tags, in.Tags)
	s.queues[q.name] = q
	delete(s.deleted, q.name)
	s.journal.queueChanged(q)
	return urlOutput{s.queueURL(c, q)}, nil
}

// recreate answers a CreateQueue for a queue that exists: fine if no given attribute differs.
func (s *Server) recreate(c *call, q *queue, given map[string]string) (any, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !sameValue(q.given[name], given[name]) {
			return nil, errQueueExists(name)
		}
	}
	return urlOutput{s.queueURL(c, q)}, nil
}

// sameValue compares attribute values, JSON documents by content.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// checkRedrive checks what a redrive policy says about another queue.
func (s *Server) checkRedrive(name string, fifo bool, set settings) error {
	if set.redrive == nil {
		return nil
	}
	dlq := s.byARN(set.redrive.target)
	switch {
	case dlq == nil:
		return errInvalidAttributeValue("RedrivePolicy", "Dead letter target does not exist.")
	case dlq.fifo != fifo:
		return errInvalidAttributeValue("RedrivePolicy", "Dead-letter queue must be same type of queue as the source.")
	case dlq.name == name:
		return errInvalidAttributeValue("RedrivePolicy", "A queue cannot be its own dead-letter queue.")
	case !dlq.allow.allows(s.arn(name)):
		return errInvalidAttributeValue("RedrivePolicy", "Queue does not have permission to use %s as a dead-letter queue: see its RedriveAllowPolicy.", set.redrive.target)
	}
	return nil
}

func getQueueURL(s *Server, c *call, in *struct{ QueueName, QueueOwnerAWSAccountId string }, _ int64) (any, error) {
	q := s.queues[in.QueueName]
	if q == nil || in.QueueOwnerAWSAccountId != "" && in.QueueOwnerAWSAccountId != s.opts.Account {
		return nil, errNoQueue()
	}
	return urlOutput{s.queueURL(c, q)}, nil
}

func deleteQueue(s *Server, _ *call, q *queue, _ *target, now int64) (any, error) {
	q.end(errNoQueue())
	q.stopTasks()
	delete(s.queues, q.name)
	maps.DeleteFunc(s.deleted, func(_ string, at int64) bool { return now >= at+int64(recreateInterval) })
	s.deleted[q.name] = now
	s.journal.queueDeleted(q, now)
	return empty{}, nil
}

func purgeQueue(s *Server, _ *call, q *queue, _ *target, now int64) (any, error) {
	if q.purged != 0 && now < q.purged+int64(purgeInterval) {
		e := prefixed("PurgeQueueInProgress", "Only one PurgeQueue operation on %s is allowed every 60 seconds.", q.name)
		e.status = 403
		return nil, e
	}
	q.purged = now
	q.clear()
	s.journal.purged(q)
	return empty{}, nil
}

type attributesInput struct {
	target
	AttributeNames []string
}

type setAttributesInput struct {
	target
	Attributes map[string]string
}

func setQueueAttributes(s *Server, _ *call, q *queue, in *setAttributesInput, now int64) (any, error) {
	set, err := q.with(in.Attributes, q.fifo)
	if err != nil {
		return nil, err
	}
	if _, ok := in.Attributes["RedrivePolicy"]; ok {
		if err := s.checkRedrive(q.name, q.fifo, set); err != nil {
			return nil, err
		}
	}
	q.settings, q.modified = set, now
	q.retime()
	q.advance(now)
	s.journal.queueChanged(q)
	return empty{}, nil
}

func getQueueAttributes(_ *Server, _ *call, q *queue, in *attributesInput, _ int64) (any, error) {
	all := q.attributes()
	if slices.Contains(in.AttributeNames, "All") {
		return map[string]any{"Attributes": all}, nil
	}
	chosen := map[string]string{}
	for _, name := range in.AttributeNames {
		if value, ok := all[name]; ok {
			chosen[name] = value
		} else if !knownAttribute(name) {
			return nil, errInvalidAttributeName(clip(name))
		}
	}
	return map[string]any{"Attributes": chosen}, nil
}

// knownAttribute reports whether a queue could have that attribute, even if this one does not.
func knownAttribute(name string) bool {
	_, number := numberAttributes[name]
	_, choice := choiceAttributes[name]
	return number || choice || slices.Contains([]string{"KmsMasterKeyId", "RedrivePolicy", "RedriveAllowPolicy", "Policy"}, name)
}

func (q *queue) attributes() map[string]string {
	all := maps.Clone(q.given)
	all["QueueArn"] = q.arn
	all["CreatedTimestamp"] = strconv.FormatInt(q.created/int64(time.Second), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.modified/int64(time.Second), 10)
	all["ApproximateNumberOfMessages"] = strconv.Itoa(q.counts[stateReady])
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(q.counts[stateInFlight])
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(q.counts[stateDelayed])
	return all
}
