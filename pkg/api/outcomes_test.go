package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// spreadsheet makes a workbook in which text that begins with = is a formula.
func spreadsheet(t *testing.T, rows [][]any, more func(*excelize.File) error) string {
	t.Helper()
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	var err error
	for i, row := range rows {
		for j, value := range row {
			at, _ := excelize.CoordinatesToCellName(j+1, i+1)
			if text, ok := value.(string); ok && strings.HasPrefix(text, "=") {
				err = errors.Join(err, book.SetCellFormula("Sheet1", at, text[1:]))
			} else {
				err = errors.Join(err, book.SetCellValue("Sheet1", at, value))
			}
		}
	}
	if more != nil {
		err = errors.Join(err, more(book))
	}
	var file bytes.Buffer
	if err = errors.Join(err, book.Write(&file)); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// what is an import's outcome as its submitter sees it: state, rows accepted, why it ended so, and the rows that were refused.
func (d *desk) what(i job.Import) string {
	d.t.Helper()
	out := fmt.Sprint(i.State, " ", i.Accepted)
	if i.Reason != nil {
		out += " " + i.Reason.Code
	}
	page, err := d.client.ImportRows(d.t.Context(), i.ID, true, "", api.MaxPage)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, row := range page.Rows {
		out += fmt.Sprintf("; %s%d %s %s %s", row.Sheet, row.Row, row.Column, row.Kind, row.Reason.Code)
	}
	return out
}

func TestEveryKindOfSheetHasItsOutcomeOnBothStores(t *testing.T) {
	merge := func(book *excelize.File) error { return book.MergeCell("Sheet1", "B2", "B3") }
	outcomes := map[string]struct{ file, want string }{
		"empty":                  {"", "failed 0 empty_sheet"},
		"blank lines only":       {"\r\n \r\n", "failed 0 empty_sheet"},
		"an empty workbook":      {spreadsheet(t, nil, nil), "failed 0 empty_sheet"},
		"names of columns only":  {"target,source\n", "failed 0 no_rows"},
		"names only, a workbook": {spreadsheet(t, [][]any{{"target", "source"}}, nil), "failed 0 no_rows"},
		"no names of columns":    {"a.mp4\nb.mp4\n", "failed 0 missing_header"},
		"no column source":       {"target\nx\n", "failed 0 missing_column"},
		"a misspelt column":      {"source,titel\na.mp4,x\n", "failed 0 unknown_column"},
		"Latin-1":                {"source,title\na.mp4,Gespr\xe4ch\n", "failed 0 encoding"},
		"UTF-16":                 {"\xff\xfes\x00o\x00", "failed 0 encoding"},
		"a quotation mark":       {"source,title\n\"a.mp4,x\n", "failed 0 broken_csv"},
		"a workbook of old":      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "failed 0 old_workbook"},
		"a broken workbook":      {"PK\x03\x04 and nothing", "failed 0 broken_workbook"},
		"wholly refused":         {"source,version\ngone.mp4,\n,1\na.mp4,soon\n", "failed 0 all_refused; 2 source text not_found; 3 source empty empty; 4 version text version"},
		"half filled":            {"target,source,title,version\n,a.mp4,,\nx,,,\n,b.mp4,B,2\n", "completed_with_refusals 2; 3 source empty empty"},
		"rows twice":             {"target,source\nx,a.mp4\nx,b.mp4\ny,a.mp4\n", "completed_with_refusals 2; 3 target text duplicate"},
		"a formula in CSV":       {"source,title\na.mp4,=1+1\nb.mp4,x\n", "completed_with_refusals 1; 2 title formula formula"},
		"a formula without its value": {spreadsheet(t, [][]any{{"target", "source"}, {"x", "=CONCAT(A1)"}, {"y", "b.mp4"}}, nil),
			"completed_with_refusals 1; Sheet12 source empty empty"},
		"merged cells": {spreadsheet(t, [][]any{{"target", "source"}, {"x", "a.mp4"}, {"y", ""}}, merge), "completed_with_refusals 1; Sheet13 source empty empty"},
		"all well":     {"source\na.mp4\nb.mp4\n", "completed 2"},
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			for name, o := range outcomes {
				t.Run(name, func(t *testing.T) {
					d := newDeskOn(t, kind, true)
					for _, talk := range []string{"a.mp4", "b.mp4"} {
						if err := os.WriteFile(filepath.Join(d.dir, talk), []byte(talk), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					i := d.imported("talks", o.file)
					if got := d.what(i); got != o.want {
						t.Errorf("got  %s\nwant %s", got, o.want)
					}
					if i.Reason != nil && !strings.HasSuffix(i.Reason.Sentence, ".") {
						t.Errorf("no sentence: %q", i.Reason.Sentence)
					}
					jobs, err := d.client.Jobs(t.Context(), job.Filter{Limit: api.MaxPage})
					if err != nil || int64(len(jobs.Jobs)) != i.Accepted {
						t.Errorf("%d jobs of %d accepted rows, %v", len(jobs.Jobs), i.Accepted, err)
					}
				})
			}
		})
	}
}

func TestTextThatARecordCannotKeepIsRefusedAndBlamesNoServer(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			h := newHouse(t, kind)
			for _, r := range []struct {
				method, path, body string
				status             int
			}{
				{"GET", "/v1/jobs/%00", "", 404},
				{"GET", "/v1/jobs/%ff", "", 404},
				{"GET", "/v1/imports/x/rows?cursor=5/%00", "", 400},
				{"POST", "/v1/jobs", `{"object":"a","target":"\u0000"}`, 400},
				{"POST", "/v1/jobs/x/cancel", `{"reason":"\u0000"}`, 400},
			} {
				if a := h.json("", r.method, r.path, r.body); a.status != r.status {
					t.Errorf("%s %s = %d %s", r.method, r.path, a.status, a.text)
				}
			}
			media, form := "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=utf-8''a%00b.csv\r\n\r\nsource\r\n--b--\r\n"
			if a := h.ask("", "POST", "/v1/imports", strings.NewReader(form), "Content-Type", media); a.status != 202 || a.body["name"] != "a?b.csv" {
				t.Errorf("a file's name with a NUL: %d %s", a.status, a.text)
			}
		})
	}
}
