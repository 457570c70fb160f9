package sheet_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/stagefleet/stagefleet/pkg/sheet"
)

func FuzzRead(f *testing.F) {
	f.Add([]byte("target,source,title,version\nTalk,a.mp4,A title,3\n"))
	f.Add([]byte("source;target\n\"a\"\"b\";=x\n"))
	f.Add([]byte("\xef\xbb\xbfsource\n'=a\n"))
	f.Add([]byte("\xff\xfes\x00"))
	f.Add([]byte(workbook(f, [][]any{{"source", "version"}, {"a.mp4", 1}, {"b.mp4", "x"}})))
	f.Fuzz(func(t *testing.T, file []byte) {
		var kept [][]string
		facts, err := sheet.Read(bytes.NewReader(file), func(r sheet.Row) error {
			if r.Refusal != nil && (r.Refusal.Sentence == "" || r.Refusal.Code == "") {
				t.Errorf("row %d is refused without a reason", r.Number)
			}
			if r.Refusal == nil && (r.Cells[sheet.Source] == "" || sheet.TargetOf(r) == "" && !strings.HasSuffix(r.Cells[sheet.Source], "/")) {
				t.Errorf("row %d cannot be used and is not refused", r.Number)
			}
			if r.Refusal == nil {
				kept = append(kept, append([]string(nil), r.Cells[:]...))
			}
			return nil
		})
		if err != nil || len(kept) == 0 || facts.Format == sheet.XLSX {
			return
		}
		var out bytes.Buffer
		err = sheet.Write(&out, facts.Format, func(add func([]string, string) error) error {
			for _, cells := range kept {
				if err := add(cells, "again"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		_, err = sheet.Read(bytes.NewReader(out.Bytes()), func(r sheet.Row) error {
			if !reflect.DeepEqual(r.Cells[:], kept[i]) {
				t.Errorf("wrote %q, read %q", kept[i], r.Cells)
			}
			i++
			return nil
		})
		if err != nil || i != len(kept) {
			t.Errorf("wrote %d rows, read %d: %v", len(kept), i, err)
		}
	})
}
