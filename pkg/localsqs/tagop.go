package localsqs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

type tagInput struct {
	target
	Tags map[string]string
}

type untagInput struct {
	target
	TagKeys []string
}

func tagQueue(s *Server, _ *call, q *queue, in *tagInput, _ int64) (any, error) {
	merged := maps.Clone(q.tags)
	maps.Copy(merged, in.Tags)
	if err := checkTags(merged); err != nil {
		return nil, err
	}
	q.tags = merged
	s.journal.queueChanged(q)
	return empty{}, nil
}

func untagQueue(s *Server, _ *call, q *queue, in *untagInput, _ int64) (any, error) {
	for _, key := range in.TagKeys {
		delete(q.tags, key)
	}
	s.journal.queueChanged(q)
	return empty{}, nil
}

func listTags(_ *Server, _ *call, q *queue, _ *target, _ int64) (any, error) {
	if len(q.tags) == 0 {
		return empty{}, nil
	}
	return map[string]any{"Tags": maps.Clone(q.tags)}, nil
}

func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return invalidParameter("Too many tags added for queue: the limit is %d.", maxTags)
	}
	for key, value := range tags {
		if key == "" || len(key) > 128 || len(value) > 256 {
			return invalidParameter("Tag keys must be between 1 and 128 characters in length, values up to 256.")
		}
	}
	return nil
}

type permissionInput struct {
	target
	Label         string
	AWSAccountIds []string
	Actions       []string
}

// policy is the part of a queue policy that AddPermission and RemovePermission work on.
type policy struct {
	Version   string
	Id        string `json:",omitempty"`
	Statement []json.RawMessage
}

type statement struct {
	Sid, Effect string
	Principal   map[string][]string
	Action      []string
	Resource    string
}

var permissionLabel = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)

func addPermission(s *Server, _ *call, q *queue, in *permissionInput, now int64) (any, error) {
	switch {
	case !permissionLabel.MatchString(in.Label):
		return nil, invalidValue("Label", clip(in.Label), "Label must be 1 to 80 alphanumeric characters, hyphens or underscores.")
	case len(in.AWSAccountIds) == 0:
		return nil, missingParameter("AWSAccountIds")
	case len(in.Actions) == 0:
		return nil, missingParameter("Actions")
	}
	p := q.policy()
	if slices.ContainsFunc(p.Statement, func(raw json.RawMessage) bool { return sid(raw) == in.Label }) {
		return nil, invalidValue("Label", in.Label, "Already exists.")
	}
	st := statement{Sid: in.Label, Effect: "Allow", Principal: map[string][]string{}, Resource: q.arn}
	for _, account := range in.AWSAccountIds {
		st.Principal["AWS"] = append(st.Principal["AWS"], "arn:aws:iam::"+account+":root")
	}
	for _, action := range in.Actions {
		st.Action = append(st.Action, "SQS:"+action)
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	p.Statement = append(p.Statement, raw)
	return empty{}, s.setPolicy(q, p, now)
}

func removePermission(s *Server, _ *call, q *queue, in *permissionInput, now int64) (any, error) {
	p := q.policy()
	before := len(p.Statement)
	p.Statement = slices.DeleteFunc(p.Statement, func(raw json.RawMessage) bool { return sid(raw) == in.Label })
	if len(p.Statement) == before {
		return nil, invalidValue("Label", clip(in.Label), "can't find label on existing policy.")
	}
	return empty{}, s.setPolicy(q, p, now)
}

func sid(raw json.RawMessage) string {
	var st struct{ Sid string }
	_ = json.Unmarshal(raw, &st)
	return st.Sid
}

func (q *queue) policy() policy {
	p := policy{Version: "2012-10-17", Id: q.arn + "/SQSDefaultPolicy"}
	_ = json.Unmarshal([]byte(q.given["Policy"]), &p)
	return p
}

func (s *Server) setPolicy(q *queue, p policy, now int64) error {
	text := ""
	if len(p.Statement) > 0 {
		raw, err := json.Marshal(p)
		if err != nil {
			return err
		}
		text = string(raw)
	}
	set, err := q.with(map[string]string{"Policy": text}, q.fifo)
	if err != nil {
		return err
	}
	q.settings, q.modified = set, now
	s.journal.queueChanged(q)
	return nil
}
