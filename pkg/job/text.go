package job

import (
	"bufio"
	"embed"
	"io/fs"
	"strings"
)

//go:embed sql
var sqlFiles embed.FS

// statements holds the SQL text by the name above it.
var statements = readStatements(sqlFiles)

// q returns a named statement. A name that does not exist is a bug, which the first test run finds.
func q(name string) string {
	text, ok := statements[name]
	if !ok {
		panic("job: no SQL statement is named " + name)
	}
	return text
}

func migrations() fs.FS {
	sub, err := fs.Sub(sqlFiles, "sql/migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return sub
}

func readStatements(files embed.FS) map[string]string {
	found := map[string]string{}
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		raw, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is compiled in
		}
		splitStatements(string(raw), found)
	}
	return found
}

// splitStatements collects the text below each "-- name:" line, without comments.
func splitStatements(text string, into map[string]string) {
	name := ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "-- name: "):
			name = strings.TrimPrefix(line, "-- name: ")
		case strings.HasPrefix(line, "--"), name == "":
		default:
			into[name] += line + "\n"
		}
	}
}
