package localsqs

import (
	"encoding/base64"
	"slices"
	"strings"
)

const maxResults = 1000

type pageInput struct {
	MaxResults *int
	NextToken  string
}

// page cuts one page out of sorted names; the token is the last name of the page before.
func (in *pageInput) page(names []string) (page []string, next string, err error) {
	limit := maxResults
	if in.MaxResults != nil {
		limit = *in.MaxResults
	}
	if limit < 1 || limit > maxResults {
		return nil, "", invalidValue("MaxResults", limit, "MaxResults must be an integer between 1 and 1000.")
	}
	if in.NextToken != "" {
		after, err := base64.StdEncoding.DecodeString(in.NextToken)
		if err != nil {
			return nil, "", invalidParameter("Invalid or expired next token.")
		}
		i, found := slices.BinarySearch(names, string(after))
		if found {
			i++
		}
		names = names[i:]
	}
	if len(names) <= limit {
		return names, "", nil
	}
	// Without MaxResults SQS returns the first thousand and no token.
	if in.MaxResults == nil {
		return names[:limit], "", nil
	}
	return names[:limit], base64.StdEncoding.EncodeToString([]byte(names[limit-1])), nil
}

type listQueuesInput struct {
	pageInput
	QueueNamePrefix string
}

type listQueuesOutput struct {
	QueueUrls []string `json:",omitempty"`
	NextToken string   `json:",omitempty"`
}

func listQueues(s *Server, c *call, in *listQueuesInput, _ int64) (any, error) {
	names, next, err := in.page(s.names(func(q *queue) bool { return strings.HasPrefix(q.name, in.QueueNamePrefix) }))
	if err != nil {
		return nil, err
	}
	return listQueuesOutput{s.urls(c, names), next}, nil
}

type listSourcesInput struct {
	target
	pageInput
}

type listSourcesOutput struct {
	QueueUrls []string `json:"queueUrls"`
	NextToken string   `json:",omitempty"`
}

func listSources(s *Server, c *call, q *queue, in *listSourcesInput, _ int64) (any, error) {
	names, next, err := in.page(s.names(q.isDLQOf))
	if err != nil {
		return nil, err
	}
	return listSourcesOutput{s.urls(c, names), next}, nil
}

func (q *queue) isDLQOf(source *queue) bool {
	return source.redrive != nil && source.redrive.target == q.arn
}

func (s *Server) names(match func(*queue) bool) []string {
	var names []string
	for _, q := range s.sortedQueues() {
		if match(q) {
			names = append(names, q.name)
		}
	}
	return names
}

func (s *Server) urls(c *call, names []string) []string {
	urls := make([]string, len(names))
	for i, name := range names {
		urls[i] = c.base + "/" + s.opts.Account + "/" + name
	}
	return urls
}
