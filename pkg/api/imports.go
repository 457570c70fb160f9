package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/stagefleet/stagefleet/pkg/job"
	"github.com/stagefleet/stagefleet/pkg/recording"
	"github.com/stagefleet/stagefleet/pkg/sheet"
)

// Imports is what the API needs of package job for sheets; *job.Store has it.
type Imports interface {
	CreateImport(ctx context.Context, s job.ImportSheet) (job.Import, error)
	Import(ctx context.Context, tenant, id string) (job.Import, error)
	Imports(ctx context.Context, tenant, cursor string, limit int) ([]job.Import, string, error)
	ImportRows(ctx context.Context, tenant string, after job.RowRef, refused bool, limit int) ([]job.ImportRow, error)
	CancelImport(ctx context.Context, tenant, id, who string) error
}

// ImportRow is a row of an import.
type ImportRow struct {
	Sheet  string      `json:"sheet,omitempty"` // name of the sheet in a workbook
	Row    int64       `json:"row"`             // as spreadsheet programs count
	State  string      `json:"state"`           // pending, accepted or refused
	Target string      `json:"target"`
	Job    string      `json:"job,omitempty"`
	Column string      `json:"column,omitempty"` // whose value was refused
	Kind   string      `json:"kind,omitempty"`   // of that value: empty, text, number, date, boolean, error or formula
	Reason *job.Reason `json:"reason,omitempty"`
}

// ImportPage is one list of imports, newest first. An empty Cursor means that it is the last.
type ImportPage struct {
	Imports []job.Import `json:"imports"`
	Cursor  string       `json:"cursor,omitempty"`
}

// ImportRowPage is one list of rows in the order of the sheet. An empty Cursor means that it is the last.
type ImportRowPage struct {
	Rows   []ImportRow `json:"rows"`
	Cursor string      `json:"cursor,omitempty"`
}

// importForm is the form of an upload, for the document.
type importForm struct {
	File   []byte `json:"file" jsonschema:"description=The sheet: CSV in UTF-8 or XLSX."`
	Folder string `json:"folder,omitempty" jsonschema:"description=What sources that are files of the server's machine are relative to; counts only for operators of a fleet on their machine."`
	// Of every row's job.
	Webhook string `json:"webhook,omitempty" jsonschema:"description=https address that the ends of the jobs are reported to\\, signed as Standard Webhooks has it"`
}

var (
	limitParam  = param{in: "query", name: "limit", about: "At most so many; 50 unless given.", like: 0}
	cursorParam = param{in: "query", name: "cursor", about: "What the page before gave."}
)

// importRoutes take sheets of jobs.
func (s *Server) importRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/imports", scope: job.ScopeSubmit, summary: "Hand in a sheet of recordings",
			params: []param{{in: "header", name: "Idempotency-Key", about: "The same key with the same request makes one import, however often it is sent."}},
			takes:  []body{{media: "multipart/form-data", like: importForm{}}},
			gives:  map[int]body{200: jsonOf(job.Import{}), 202: jsonOf(job.Import{})}, problems: []int{400, 413, 415, 422}, handle: s.createImport},
		{method: http.MethodGet, path: "/v1/imports", scope: job.ScopeView, summary: "List imports, newest first",
			params: []param{limitParam, cursorParam}, gives: map[int]body{200: jsonOf(ImportPage{})}, problems: []int{400}, handle: s.listImports},
		{method: http.MethodGet, path: "/v1/imports/{id}", scope: job.ScopeView, summary: "One import: how many of its rows are settled",
			gives: map[int]body{200: jsonOf(job.Import{})}, problems: []int{404}, handle: s.getImport},
		{method: http.MethodGet, path: "/v1/imports/{id}/rows", scope: job.ScopeView, summary: "The rows of an import in the order of the sheet",
			params: []param{{in: "query", name: "refused", about: "true: only refused ones.", like: false}, limitParam, cursorParam},
			gives:  map[int]body{200: jsonOf(ImportRowPage{})}, problems: []int{400, 404}, handle: s.importRows},
		{method: http.MethodGet, path: "/v1/imports/{id}/refused", scope: job.ScopeView, summary: "The refused rows as a sheet with a column reason, in the format of the import's; it can be imported again",
			gives: map[int]body{200: {media: "*/*"}}, problems: []int{404}, handle: s.refusedSheet},
		{method: http.MethodPost, path: "/v1/imports/{id}/cancel", scope: job.ScopeSubmit, summary: "End an import; rows that have a job keep it",
			gives: map[int]body{200: jsonOf(job.Import{})}, problems: []int{404, 409}, handle: s.cancelImport},
	}
}

// createImport stores the sheet; it is read in the background, so that every fault of it is told in the same way. 202 is for a new
// import, 200 for one that the same request has made before; then the sheet is left to garbage collection.
func (s *Server) createImport(w http.ResponseWriter, r *http.Request) error {
	who := callerOf(r.Context())
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, sheet.MaxBytes+maxOverhead)
	parts, err := r.MultipartReader()
	if err != nil {
		return problem(http.StatusUnsupportedMediaType, "not_multipart", "Send the sheet as multipart/form-data in a field named file.")
	}
	in := job.ImportSheet{Tenant: who.tenant, IdempotencyKey: key}
	sum := ""
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(err)
		}
		object, err := s.takeSheet(&in, r, part)
		if err != nil {
			return err
		}
		sum += object.SHA256 // of the one part that is a sheet
	}
	if in.Object == "" {
		return problem(http.StatusBadRequest, "no_file", "The form has no field named file with a sheet.")
	}
	if !s.cfg.Local || !who.scopes.Has(job.ScopeOperate) {
		in.Folder = ""
	}
	in.BodyHash = hashOf("import", in.Name, in.Folder, in.Webhook, sum)
	i, err := s.cfg.Imports.CreateImport(r.Context(), in)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/imports/"+i.ID)
	status := http.StatusAccepted
	if i.Known {
		status = http.StatusOK
	}
	return writeJSON(w, status, i)
}

// takeSheet reads one field of the form, and returns the sheet if it is that.
func (s *Server) takeSheet(in *job.ImportSheet, r *http.Request, part *multipart.Part) (sheet recording.Object, err error) {
	switch part.FormName() {
	case "folder":
		if in.Folder, err = text(part, maxFolder); err == nil && in.Folder != "" && (!filepath.IsAbs(in.Folder) || !job.PlainText(in.Folder)) {
			err = problem(http.StatusBadRequest, "folder", "The folder must be an absolute path without control characters.")
		}
		return sheet, err
	case "webhook":
		if in.Webhook, err = text(part, maxAddress); err == nil && in.Webhook != "" {
			err = s.reportable(callerOf(r.Context()), in.Webhook)
		}
		return sheet, err
	case "file":
		if in.Object != "" {
			return sheet, problem(http.StatusBadRequest, "two_files", "Send one sheet per request.")
		}
		in.Name = sheetName(part.FileName())
		sheet, err = s.putSheet(r.Context(), part)
		in.Object = sheet.Key
		return sheet, err
	}
	return sheet, problem(http.StatusBadRequest, "unknown_field", "The form's fields are file, folder and webhook.")
}

// sheetName is what people see of a file's name.
func sheetName(name string) string {
	name = strings.Map(func(char rune) rune {
		if unicode.IsControl(char) {
			return '?'
		}
		return char
	}, strings.ToValidUTF8(baseName(name), "?"))
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

const maxFolder = 4 << 10 // bytes of a path

func (s *Server) putSheet(ctx context.Context, part io.Reader) (recording.Object, error) {
	return s.put(ctx, "imports/"+strings.ToLower(rand.Text()), "sheet", part, sheet.MaxBytes)
}

func (s *Server) listImports(w http.ResponseWriter, r *http.Request) error {
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	imports, cursor, err := s.cfg.Imports.Imports(r.Context(), callerOf(r.Context()).tenant, r.URL.Query().Get("cursor"), limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, ImportPage{Imports: append([]job.Import{}, imports...), Cursor: cursor})
}

func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 50, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > MaxPage {
		return 0, problem(http.StatusBadRequest, "limit", "The limit must be a whole number from 1 to %d.", MaxPage)
	}
	return limit, nil
}

func (s *Server) getImport(w http.ResponseWriter, r *http.Request) error {
	i, err := s.cfg.Imports.Import(r.Context(), callerOf(r.Context()).tenant, r.PathValue("id"))
	if err != nil {
		return noImport(err)
	}
	return writeJSON(w, http.StatusOK, i)
}

// noImport words what is missing.
func noImport(err error) error {
	switch {
	case errors.Is(err, job.ErrNotFound):
		return problem(http.StatusNotFound, "not_found", "There is no such import.")
	case errors.Is(err, job.ErrEnded):
		return problem(http.StatusConflict, "ended", "The import has ended already.")
	}
	return err
}

func (s *Server) importRows(w http.ResponseWriter, r *http.Request) error {
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	after := job.RowRef{Import: r.PathValue("id")}
	if text := query.Get("cursor"); text != "" {
		number, name, _ := strings.Cut(text, "/")
		if after.Number, err = strconv.ParseInt(number, 10, 64); err != nil {
			return problem(http.StatusBadRequest, "cursor", "The cursor must be what the page before gave.")
		}
		after.Sheet = name
	}
	refused := query.Get("refused")
	if refused != "" && refused != "true" && refused != "false" {
		return problem(http.StatusBadRequest, "refused", "The parameter refused must be true or false.")
	}
	rows, err := s.cfg.Imports.ImportRows(r.Context(), callerOf(r.Context()).tenant, after, refused == "true", limit)
	if err != nil {
		return noImport(err)
	}
	page := ImportRowPage{Rows: []ImportRow{}}
	for _, row := range rows {
		page.Rows = append(page.Rows, rowOf(row))
	}
	if len(rows) == limit {
		last := rows[limit-1]
		page.Cursor = fmt.Sprintf("%d/%s", last.Number, last.Sheet)
	}
	return writeJSON(w, http.StatusOK, page)
}

func rowOf(row job.ImportRow) ImportRow {
	r := sheet.Row{}
	copy(r.Cells[:], row.Cells)
	out := ImportRow{Sheet: row.Sheet, Row: row.Number, State: row.State, Target: sheet.TargetOf(r), Job: row.Job, Kind: row.Kind, Reason: row.Reason}
	if row.Column > 0 {
		out.Column = sheet.Column(row.Column - 1).String()
	}
	return out
}

// refusedSheet streams the refused rows. What breaks off after the first byte breaks the connection, so that half a sheet is not
// taken for a whole one; before it, it is told as anything else is.
func (s *Server) refusedSheet(w http.ResponseWriter, r *http.Request) error {
	tenant := callerOf(r.Context()).tenant
	i, err := s.cfg.Imports.Import(r.Context(), tenant, r.PathValue("id"))
	if err != nil {
		return noImport(err)
	}
	format, media, ending := sheet.Format(i.Format), "text/csv; charset=utf-8", "csv"
	if format == sheet.XLSX {
		media, ending = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=refused-%s.%s", i.ID, ending))
	out := &begun{Writer: w}
	err = sheet.Write(out, format, func(add func([]string, string) error) error {
		return s.eachRefused(r.Context(), tenant, i.ID, add)
	})
	switch {
	case err == nil:
		return nil
	case out.yes:
		panic(http.ErrAbortHandler)
	}
	w.Header().Del("Content-Disposition")
	return err
}

// begun knows whether anything has been written.
type begun struct {
	io.Writer
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.Writer.Write(p)
}

func (s *Server) eachRefused(ctx context.Context, tenant, id string, add func([]string, string) error) error {
	after := job.RowRef{Import: id}
	for {
		rows, err := s.cfg.Imports.ImportRows(ctx, tenant, after, true, MaxPage)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if err := add(row.Cells, row.Reason.Sentence); err != nil {
				return err
			}
		}
		last := rows[len(rows)-1]
		after.Sheet, after.Number = last.Sheet, last.Number
	}
}

func (s *Server) cancelImport(w http.ResponseWriter, r *http.Request) error {
	who := callerOf(r.Context())
	if err := s.cfg.Imports.CancelImport(r.Context(), who.tenant, r.PathValue("id"), who.who()); err != nil {
		return noImport(err)
	}
	return s.getImport(w, r)
}
