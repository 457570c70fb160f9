package sqldb

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Records are rows that a statement reads as a table, by records() or ids().
type Records struct{ slice any }

// Rows makes an argument of a slice of structs, or of pointers to them. A field is the column that its json tag names. It must
// be a string, an int64 or a pointer to a string, which is NULL when nil.
func Rows(slice any) Records { return Records{slice} }

// cell returns one value for SQLite.
func (r Records) cell(row int, name string) any {
	rows := reflect.ValueOf(r.slice)
	v := reflect.Indirect(rows.Index(row)).FieldByIndex(fieldOf(rows.Type().Elem(), name).path)
	switch {
	case v.Kind() == reflect.Int64:
		return v.Int()
	case v.Kind() == reflect.String:
		return v.String()
	case v.IsNil():
		return nil
	default:
		return v.Elem().String()
	}
}

// texts returns a column of text.
func (r Records) texts(name string) []string {
	c := r.column(name, textArray)
	out := make([]string, r.len())
	for i := range out {
		out[i], _ = c.text(i)
	}
	return out
}

func (r Records) len() int { return reflect.ValueOf(r.slice).Len() }

// field is where a column lies in a row.
type field struct {
	path    []int
	pointer bool
}

type fieldKey struct {
	row  reflect.Type
	name string
}

// fields caches what reflection finds; the set of columns is that of the program.
var fields sync.Map

func fieldOf(row reflect.Type, name string) field {
	key := fieldKey{row, name}
	if f, ok := fields.Load(key); ok {
		return f.(field)
	}
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	for _, f := range reflect.VisibleFields(row) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			found := field{f.Index, f.Type.Kind() == reflect.Pointer}
			fields.Store(key, found)
			return found
		}
	}
	panic(fmt.Sprintf("sqldb: a statement reads column %s, which no field of %s has", name, row))
}
