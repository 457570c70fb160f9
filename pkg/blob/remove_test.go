package blob

import (
	"errors"
	"testing"
)

func TestAFolderOfObjectsIsCountedAndRemovedAlone(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			for key, content := range map[string]string{"jobs/j/a/one": "1", "jobs/j/a/sub/two": "22", "jobs/j/ab/other": "333", "jobs/j/a.txt": "4444"} {
				put(t, s, key, []byte(content))
			}
			want := Usage{Objects: 2, Bytes: 3}
			if got, err := s.Usage(t.Context(), "jobs/j/a"); err != nil || got != want {
				t.Errorf("usage %+v, %v, want %+v", got, err, want)
			}
			if got, err := s.RemoveAll(t.Context(), "jobs/j/a"); err != nil || got != want {
				t.Errorf("removed %+v, %v, want %+v", got, err, want)
			}
			for key, gone := range map[string]bool{"jobs/j/a/one": true, "jobs/j/a/sub/two": true, "jobs/j/ab/other": false, "jobs/j/a.txt": false} {
				if _, err := get(t, s, key); errors.Is(err, ErrNotFound) != gone {
					t.Errorf("%s: %v, want gone %v", key, err, gone)
				}
			}
			if got, err := s.RemoveAll(t.Context(), "jobs/j/a"); err != nil || got != (Usage{}) {
				t.Errorf("removed again: %+v, %v", got, err)
			}
			for _, bad := range []string{"", "..", "../x", "/etc"} {
				if _, err := s.RemoveAll(t.Context(), bad); !errors.Is(err, ErrKey) {
					t.Errorf("%q: %v, want ErrKey", bad, err)
				}
			}
		})
	}
}
