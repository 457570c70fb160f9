package api_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/blob"
	"github.com/stagefleet/stagefleet/pkg/intake"
	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

// desk is a server over a real record, with the part that carries imports out.
type desk struct {
	t      *testing.T
	dir    string
	s      *job.Store
	server *httptest.Server
	client *api.Client
}

func newDesk(t *testing.T, localFiles bool) *desk {
	t.Helper()
	return newDeskOn(t, "sqlite", localFiles)
}

func newDeskOn(t *testing.T, kind string, localFiles bool) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), s: open(t, kind, job.Options{})}
	objects, err := blob.NewFolder(filepath.Join(d.dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	first := job.Route{Stage: "ingest", Queue: "q.fifo", DLQ: "d", FIFO: true}
	d.server = httptest.NewServer(api.NewServer(api.Config{
		Record: d.s, Imports: d.s, Local: localFiles, Objects: objects, Place: "file://" + d.dir, Overview: overview{},
		First: first, MaxUpload: maxUpload, Metrics: http.NotFoundHandler(), Log: zap.NewNop(),
	}))
	d.client = api.NewClient(d.server.URL)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- intake.Intake{Record: d.s, Objects: objects, First: first, MaxInput: maxUpload, Log: zap.NewNop()}.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		d.client.Close()
		http.DefaultClient.CloseIdleConnections()
		d.server.Close()
	})
	return d
}

func (d *desk) imported(name, text string) job.Import {
	d.t.Helper()
	i, err := d.client.CreateImport(d.t.Context(), api.SheetRequest{Name: name, Folder: d.dir}, strings.NewReader(text))
	if err == nil {
		i, err = d.client.WatchImport(d.t.Context(), i.ID, func(job.Import) {})
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return i
}

func TestRefusedRowsAreDownloadedMendedAndImportedAgain(t *testing.T) {
	csv := "Version;Source;Target\r\n1;a.mp4;Talk\r\n;gone.mp4;=cmd\r\nx;a.mp4;Other\r\n"
	var book bytes.Buffer
	err := sheet.Write(&book, sheet.XLSX, func(add func([]string, string) error) error {
		for _, row := range [][]string{{"Talk", "a.mp4", "", "1"}, {"=cmd", "gone.mp4", "", ""}, {"Other", "a.mp4", "", "x"}} {
			if err := add(row, ""); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	onBoth(t, func(t *testing.T, kind string) {
		for name, text := range map[string]string{"talks.csv": csv, "talks.xlsx": book.String()} {
			t.Run(name, func(t *testing.T) { mendRefused(t, kind, name, text) })
		}
	})
}

// mendRefused imports a sheet of one good and two bad rows, and of a CSV the bad ones once they are mended.
func mendRefused(t *testing.T, kind, name, text string) {
	d := newDeskOn(t, kind, true)
	_ = os.WriteFile(filepath.Join(d.dir, "a.mp4"), []byte("a"), 0o644)
	i := d.imported(name, text)
	if i.State != job.ImportPartly || i.Accepted != 1 || i.Refused != 2 || i.Name != name {
		t.Fatalf("%+v", i)
	}
	var refused bytes.Buffer
	if err := d.client.RefusedSheet(t.Context(), i.ID, &refused); err != nil {
		t.Fatal(err)
	}
	var reasons []string
	facts, err := sheet.Read(bytes.NewReader(refused.Bytes()), func(r sheet.Row) error {
		reasons = append(reasons, r.Cells[sheet.Target])
		return nil
	})
	if err != nil || string(facts.Format) != i.Format || strings.Join(reasons, " ") != "=cmd Other" {
		t.Fatalf("%q: %+v, %v", refused.String(), facts, err)
	}
	if facts.Format != sheet.XLSX {
		if !strings.Contains(refused.String(), "'=cmd;gone.mp4;;;The target is a formula") {
			t.Errorf("%q", refused.String())
		}
		mended := strings.NewReplacer("'=cmd", "Fine", "gone.mp4", "a.mp4", ";x;", ";2;").Replace(refused.String())
		if again := d.imported("again.csv", mended); again.State != job.ImportCompleted || again.Accepted != 2 {
			t.Errorf("%+v, %+v", again, again.Reason)
		}
	}
}

// rowless is a record that cannot tell the rows of an import.
type rowless struct{ *job.Store }

func (rowless) ImportRows(context.Context, string, job.RowRef, bool, int) ([]job.ImportRow, error) {
	return nil, errors.New("the record is ill")
}

func TestARefusedSheetThatCannotBeginIsAProblem(t *testing.T) {
	d := newDesk(t, true)
	for _, name := range []string{"t.csv", "t.xlsx"} {
		text := "source\n,\n"
		if name == "t.xlsx" {
			text = spreadsheet(t, [][]any{{"source", "title"}, {"", "x"}}, nil)
		}
		i := d.imported(name, text)
		server := api.NewServer(api.Config{Record: d.s, Imports: rowless{d.s}, Log: zap.NewNop()})
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/imports/"+i.ID+"/refused", nil))
		if answer.Code != 500 || answer.Header().Get("Content-Type") != "application/problem+json" || answer.Header().Get("Content-Disposition") != "" {
			t.Errorf("%s: %d %v %s", name, answer.Code, answer.Header(), answer.Body)
		}
	}
}

func TestRowsOfAnImportArePagedWithSheetColumnAndKind(t *testing.T) {
	d := newDesk(t, true)
	i := d.imported("t.csv", "source,version\ngone.mp4,2024-01-05\ngone.mp4,\n,3\n")
	var got []api.ImportRow
	for cursor := ""; ; {
		page, err := d.client.ImportRows(t.Context(), i.ID, true, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Rows...)
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if len(got) != 3 || got[0].Row != 2 || got[0].Column != "version" || got[0].Kind != "date" || got[2].Column != "source" || got[2].Kind != "empty" {
		t.Errorf("%+v", got)
	}
	page, err := d.client.Imports(t.Context(), 10)
	if err != nil || len(page.Imports) != 1 || page.Imports[0].State != job.ImportFailed {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestAFleetThatIsNotOnThisMachineOpensNoFilesForASheet(t *testing.T) {
	d := newDesk(t, false)
	_ = os.WriteFile(filepath.Join(d.dir, "a.mp4"), []byte("a"), 0o644)
	i := d.imported("t.csv", "source\na.mp4\n")
	page, err := d.client.ImportRows(t.Context(), i.ID, true, "", 10)
	if err != nil || len(page.Rows) != 1 || page.Rows[0].Reason.Code != "no_local_files" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestARequestThatIsNoImportSaysWhy(t *testing.T) {
	d := newDesk(t, true)
	for name, c := range map[string]struct {
		fields []field
		status int
		code   string
	}{
		"no file":           {[]field{{"folder", "", "/tmp"}}, 400, "no_file"},
		"two files":         {[]field{{"file", "a", "x"}, {"file", "b", "y"}}, 400, "two_files"},
		"another field":     {[]field{{"file", "a", "x"}, {"fodler", "", "y"}}, 400, "unknown_field"},
		"a relative folder": {[]field{{"folder", "", "tmp"}, {"file", "a", "x"}}, 400, "folder"},
		"too large":         {[]field{{"file", "a", strings.Repeat("x", sheet.MaxBytes+1)}}, 413, "too_large"},
	} {
		contentType, body := form(t, c.fields...)
		response, err := http.Post(d.server.URL+"/v1/imports", contentType, body)
		if err != nil {
			t.Fatal(err)
		}
		if p := decode(t, response); response.StatusCode != c.status || p["code"] != c.code {
			t.Errorf("%s: %d %v", name, response.StatusCode, p)
		}
	}
	for _, path := range []string{"", "/rows", "/refused"} {
		response, err := http.Get(d.server.URL + "/v1/imports/unknown" + path)
		if err != nil {
			t.Fatal(err)
		}
		if p := decode(t, response); response.StatusCode != http.StatusNotFound || p["code"] != "not_found" {
			t.Errorf("%s: %d %v", path, response.StatusCode, p)
		}
	}
}

func TestAnEndedImportCannotBeCancelled(t *testing.T) {
	d := newDesk(t, true)
	i := d.imported("t.csv", "source\n")
	_, err := d.client.CancelImport(t.Context(), i.ID)
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Status != http.StatusConflict {
		t.Errorf("%v", err)
	}
}
