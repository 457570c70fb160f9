package api_test

import (
	"net/http"
	"testing"
)

func TestTheDocumentOfTheAPIIsServedToAnybody(t *testing.T) {
	b := setup(t)
	response, err := http.Get(b.server.URL + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	document := decode(t, response)
	if document["openapi"] != "3.1.0" {
		t.Errorf("openapi = %v", document["openapi"])
	}
	for _, path := range []string{"/v1/jobs", "/v1/jobs/{id}/events", "/healthz"} {
		if document["paths"].(map[string]any)[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
}

func TestWordsThatAnOperationDoesNotKnowAreRefused(t *testing.T) {
	b := setup(t)
	response, err := http.Get(b.server.URL + "/v1/jobs?tarqet=a")
	if err != nil {
		t.Fatal(err)
	}
	if p := decode(t, response); response.StatusCode != http.StatusBadRequest || p["code"] != "unknown_parameter" || p["instance"] != "/v1/jobs" {
		t.Errorf("= %d %v", response.StatusCode, p)
	}
}
