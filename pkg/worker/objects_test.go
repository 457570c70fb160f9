package worker_test

import (
	"io"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/outcome"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/worker"
)

func TestATaskReadsObjectsOfItsJobAndItsTenantOnly(t *testing.T) {
	store, err := blob.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	objects := worker.NewObjects(store, "jobs/j1/a1", t.TempDir(), 0).Within("jobs/j1", "uploads/acme")
	for key, own := range map[string]bool{
		"jobs/j1/a1/out": true, "jobs/j1/a0/earlier": true, "uploads/acme/u/source": true,
		"jobs/j10/a1/out": false, "jobs/j2/a1/out": false, "uploads/other/u/source": false, "uploads/acme2/x": false, "elsewhere": false,
	} {
		w, err := store.Create(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		object := recording.Object{Key: key}
		_, pathErr := objects.Path(t.Context(), object)
		_, linkErr := objects.Link(t.Context(), object, "copy-of-"+key)
		body, openErr := objects.Open(t.Context(), object)
		if body != nil {
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
		}
		for call, err := range map[string]error{"Path": pathErr, "Link": linkErr, "Open": openErr} {
			if v := outcome.Of(err); own && err != nil || !own && (v.Kind != outcome.KindQuarantine || v.Reason != "foreign_object") {
				t.Errorf("%s of %s: %v", call, key, err)
			}
		}
	}
}
