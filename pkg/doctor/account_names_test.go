package doctor_test

import (
	"fmt"
	"strings"

	"github.com/aws/smithy-go/encoding/cbor"
)

// lowered are names as ECS writes them. What is inside of options is named by whoever writes it.
func lowered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, value := range v {
			if name == "Options" {
				m["options"] = value
				continue
			}
			m[strings.ToLower(name[:1])+name[1:]] = lowered(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = lowered(v[i])
		}
		return list
	}
	return v
}

func toCBOR(v any) cbor.Value {
	switch v := v.(type) {
	case map[string]any:
		m := cbor.Map{}
		for name, value := range v {
			m[name] = toCBOR(value)
		}
		return m
	case []any:
		list := cbor.List{}
		for _, item := range v {
			list = append(list, toCBOR(item))
		}
		return list
	case string:
		return cbor.String(v)
	case bool:
		return cbor.Bool(v)
	case int:
		return cbor.Uint(v)
	case float64:
		return cbor.Float64(v)
	}
	panic(fmt.Sprintf("%T", v))
}

func fromCBOR(v cbor.Value) any {
	switch v := v.(type) {
	case cbor.Map:
		m := map[string]any{}
		for name, value := range v {
			m[name] = fromCBOR(value)
		}
		return m
	case cbor.List:
		list := []any{}
		for _, item := range v {
			list = append(list, fromCBOR(item))
		}
		return list
	case cbor.String:
		return string(v)
	case cbor.Bool:
		return bool(v)
	case cbor.Uint:
		return int(v)
	case cbor.NegInt:
		return -int(v)
	case cbor.Float64:
		return float64(v)
	case cbor.Float32:
		return float64(v)
	}
	return nil
}
