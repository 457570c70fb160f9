package sqldb

import (
	"context"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// column is one column of rows on its way to Postgres as an array. It is encoded straight from the rows: making a slice of it,
// and of each value an interface, was a fifth of the client's CPU.
type column struct {
	rows reflect.Value // a slice
	field
	bigint bool
}

// column returns a column. One that the rows lack is a bug, which the first run finds.
func (r Records) column(name string, k kind) column {
	rows := reflect.ValueOf(r.slice)
	return column{rows, fieldOf(rows.Type().Elem(), name), k == bigintArray}
}

func (c column) value(row int) reflect.Value {
	return reflect.Indirect(c.rows.Index(row)).FieldByIndex(c.path)
}

// text returns a value of a text column; false: NULL.
func (c column) text(row int) (string, bool) {
	v := c.value(row)
	if !c.pointer {
		return v.String(), true
	}
	if v.IsNil() {
		return "", false
	}
	return v.Elem().String(), true
}

// append encodes the column in the binary format of arrays: dimensions, a flag that is ignored, the type; then length and lower
// bound; then the values, each after its length.
func (c column) append(buf []byte) []byte {
	n, be := c.rows.Len(), binary.BigEndian
	typ := uint32(pgtype.TextOID)
	if c.bigint {
		typ = pgtype.Int8OID
	}
	buf = slices.Grow(buf, 20+32*n)
	if n == 0 {
		return be.AppendUint32(append(buf, 0, 0, 0, 0, 0, 0, 0, 0), typ)
	}
	buf = be.AppendUint32(append(buf, 0, 0, 0, 1, 0, 0, 0, 1), typ)
	buf = be.AppendUint32(be.AppendUint32(buf, uint32(n)), 1)
	for row := range n {
		if c.bigint {
			buf = be.AppendUint64(be.AppendUint32(buf, 8), uint64(c.value(row).Int()))
			continue
		}
		text, ok := c.text(row)
		if !ok {
			buf = append(buf, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		buf = append(be.AppendUint32(buf, uint32(len(text))), text...)
	}
	return buf
}

// columnCodec knows columns beside what the array codec of pgx knows.
type columnCodec struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c columnCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(column); ok && format == pgtype.BinaryFormatCode {
		return columnPlan{}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type columnPlan struct{}

// Encode implements pgtype.EncodePlan.
func (columnPlan) Encode(value any, buf []byte) ([]byte, error) {
	return value.(column).append(buf), nil
}

// registerColumns lets a connection take columns.
func registerColumns(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	for oid, of := range map[uint32]uint32{pgtype.TextArrayOID: pgtype.TextOID, pgtype.Int8ArrayOID: pgtype.Int8OID} {
		array, _ := m.TypeForOID(oid) // pgx knows both
		element, _ := m.TypeForOID(of)
		m.RegisterType(&pgtype.Type{Name: array.Name, OID: oid, Codec: columnCodec{&pgtype.ArrayCodec{ElementType: element}}})
	}
	return nil
}
