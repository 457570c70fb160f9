package infra

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// schemaText says which properties the types of resources have that the templates use. It is derived from the CloudFormation
// resource provider schemas of Amazon Web Services as cfn-lint 1.51.0 (MIT-0) carries them, with what is not used left out.
//
//go:embed schema.json
var schemaText []byte

// shape is the form of a value. An empty one allows anything.
type shape struct {
	Type     string           `json:"t"` // s, i, n, b, a list, a map; empty: any
	Enum     []any            `json:"e"`
	Item     *shape           `json:"i"`
	Props    map[string]shape `json:"p"`
	Required []string         `json:"r"`
}

var schema = sync.OnceValue(func() map[string]shape {
	var types map[string]shape
	if err := json.Unmarshal(schemaText, &types); err != nil {
		panic(err) // the file is compiled in
	}
	return types
})

// structure compares the resource with its type.
func (c *checker) structure() {
	s, known := schema()[c.resource.Type]
	c.must(known, "type", "%s is not in the table of types", c.resource.Type)
	if known {
		c.value(c.resource.ID, s, c.resource.Properties)
	}
}

func (c *checker) value(path string, s shape, value any) {
	if i, ok := value.(If); ok {
		c.value(path, s, i.Then)
		c.value(path, s, i.Else)
		return
	}
	if tag, _ := intrinsic(value); tag != "" {
		return // CloudFormation decides what it is
	}
	switch s.Type {
	case "m":
		c.mapping(path, s, value)
	case "a":
		items, ok := value.(List)
		c.must(ok, "value", "%s is no list", path)
		for _, item := range items {
			if s.Item != nil {
				c.value(path+"[]", *s.Item, item)
			}
		}
	case "s", "i", "n", "b":
		c.must(isA(s.Type, value), "value", "%s is %v, which is of another kind", path, value)
		c.must(len(s.Enum) == 0 || slices.ContainsFunc(s.Enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(value) }), "value", "%s is %v, must be one of %v", path, value, s.Enum)
	}
}

func (c *checker) mapping(path string, s shape, value any) {
	m, ok := value.(Map)
	c.must(ok, "value", "%s is no map", path)
	if !ok || s.Props == nil {
		return
	}
	for _, p := range m {
		if p.Value == nil {
			continue
		}
		inner, known := s.Props[p.Key]
		c.must(known, "property", "%s has no %s", path, p.Key)
		if known {
			c.value(path+"."+p.Key, inner, p.Value)
		}
	}
	for _, name := range s.Required {
		c.must(m.value(name) != nil, "required", "%s has not got %s", path, name)
	}
}

func isA(kind string, value any) bool {
	switch value.(type) {
	case string:
		return kind == "s"
	case bool:
		return kind == "b"
	case int:
		return kind == "i" || kind == "n"
	case float64:
		return kind == "n"
	}
	return false
}
