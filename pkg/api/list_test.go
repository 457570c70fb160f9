package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"
)

// targets are those of a list.
func (a answer) targets() []string {
	var names []string
	for _, j := range a.body["jobs"].([]any) {
		names = append(names, j.(map[string]any)["target"].(string))
	}
	return names
}

func TestPagesStayWhatTheyAreWhileOthersSubmit(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		for i := range 5 {
			h.submit("", fmt.Sprint("talk ", i), "x")
		}
		first := h.json("", "GET", "/v1/jobs?limit=2", "")
		h.submit("", "later", "x")
		second := h.json("", "GET", "/v1/jobs?limit=2&cursor="+first.body["cursor"].(string), "")
		if got := append(first.targets(), second.targets()...); !slices.Equal(got, []string{"talk 4", "talk 3", "talk 2", "talk 1"}) {
			t.Errorf("pages = %v", got)
		}
	})
}

func TestListsAreFilteredByTargetStateStageAndTime(t *testing.T) {
	onBoth(t, func(t *testing.T, kind string) {
		h := newHouse(t, kind)
		h.submit("", "old", "x")
		h.complete(map[string]string{"index.html": ""})
		<-time.After(5 * time.Millisecond)
		since := time.Now().UTC()
		<-time.After(5 * time.Millisecond)
		h.submit("", "new", "x")
		for query, want := range map[string][]string{
			"target=old": {"old"}, "state=completed": {"old"}, "state=queued": {"new"}, "stage=ingest": {"new"}, "stage=publish": nil,
			"since=" + url.QueryEscape(since.Format(time.RFC3339Nano)): {"new"}, "target=old&stage=ingest": nil, "target=old&since=1950-01-01T00:00:00Z": {"old"}, "target=old&since=9999-12-31T23:59:59-23:59": nil, "target=new&state=queued&stage=ingest": {"new"}, "stage=ingest&state=failed": nil,
		} {
			if a := h.json("", "GET", "/v1/jobs?"+query, ""); a.status != 200 || !slices.Equal(a.targets(), want) {
				t.Errorf("%s = %d %v, want %v", query, a.status, a.text, want)
			}
		}
		if a := h.json("", "GET", "/v1/jobs?since=yesterday", ""); a.status != 400 || a.body["code"] != "since" {
			t.Errorf("since yesterday = %d %s", a.status, a.text)
		}
	})
}
