package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// difference is one field of a resource.
type difference struct{ path, want, got string }

// tree is a value of the SDK as maps and lists; its fields are named as CloudFormation's properties are.
func tree(v any) any {
	text, err := json.Marshal(v)
	var out any
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("%T cannot be compared: %v", v, err)) // a fault of this package: the SDK's types can
	}
	return out
}

// differences compares every property of a resource that the manifest decides.
func differences(w wanted, found any) []difference {
	rules := kinds[w.kind]
	d := &comparison{ignored: rules.ignored}
	properties := maps.Clone(w.properties)
	for name, value := range rules.implied {
		if _, said := properties[name]; !said {
			properties[name] = value
		}
	}
	d.compare("", properties, found)
	return d.all
}

type comparison struct {
	ignored []string
	all     []difference
}

func (c *comparison) differ(path string, want, got any) {
	w, g := show(want), show(got)
	if a, plain := want.(string); plain {
		if b, plain := got.(string); plain {
			w, g = apart(a, b)
		}
	}
	c.all = append(c.all, difference{strings.TrimPrefix(path, "."), w, g})
}

// apart shows two texts from shortly before the place where they part, when they are too long to be shown whole.
func apart(a, b string) (string, string) {
	const before = 40
	if max(len(a), len(b)) <= showLimit {
		return a, b
	}
	x, y := []rune(a), []rune(b)
	at := 0
	for at < min(len(x), len(y)) && x[at] == y[at] {
		at++
	}
	if at <= before {
		return shorten(a), shorten(b)
	}
	at -= before
	return shorten("…" + string(x[at:])), shorten("…" + string(y[at:]))
}

func (c *comparison) compare(path string, want, got any) {
	switch want := want.(type) {
	case chosen:
		if got == nil {
			c.differ(path, want, got)
		}
	case pattern:
		if s, ok := got.(string); !ok || !want.re.MatchString(s) {
			c.differ(path, want, got)
		}
	case absent:
		if got != nil {
			c.differ(path, want, got)
		}
	case either:
		c.either(path, want, got)
	case map[string]any:
		inner, ok := got.(map[string]any)
		if !ok && len(want) > 0 {
			c.differ(path, want, got)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !slices.Contains(c.ignored, strings.TrimPrefix(path+"."+name, ".")) {
				c.compare(path+"."+name, want[name], inner[name])
			}
		}
	case []any:
		c.list(path, want, got)
	default:
		if !same(want, got) {
			c.differ(path, want, got)
		}
	}
}

// either is satisfied by one of the two; otherwise the first tells what is wrong.
func (c *comparison) either(path string, want either, got any) {
	for _, option := range []any{want.a, want.b} {
		if option == (any)(absent{}) && got == nil {
			return
		}
		trial := &comparison{ignored: c.ignored}
		if trial.compare(path, option, got); option != (any)(absent{}) && len(trial.all) == 0 {
			return
		}
	}
	c.compare(path, want.a, got)
}

// list compares entries by their names where they have one, and as a whole where they are plain.
func (c *comparison) list(path string, want []any, got any) {
	found, _ := got.([]any)
	if name := keyOf(want); name != "" {
		c.named(path, name, want, found)
		return
	}
	if _, maps := first(want).(map[string]any); maps && len(want) == len(found) {
		for i := range want {
			c.compare(fmt.Sprintf("%s[%d]", path, i), want[i], found[i])
		}
		return
	}
	if !sameSet(want, found, strings.HasSuffix(path, ".Command")) {
		c.differ(path, want, got)
	}
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// keyNames are the properties that name an entry of a list.
var keyNames = []string{"Name", "Id", "Key", "CapacityProvider", "SourceVolume", "ContainerPort", "Sid"}

// keyOf returns the property by which the entries of a list are told apart, and "" if they have none.
func keyOf(list []any) string {
	for _, name := range keyNames {
		if len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool { return nameOf(item, name) == "" }) {
			return name
		}
	}
	return ""
}

func nameOf(item any, key string) string {
	switch v := item.(type) {
	case map[string]any:
		if name, ok := v[key]; ok {
			return show(name)
		}
	case either:
		if name := nameOf(v.a, key); name != "" {
			return name
		}
		return nameOf(v.b, key)
	}
	return ""
}

func (c *comparison) named(path, key string, want, found []any) {
	known := map[string]bool{}
	for _, item := range want {
		name := nameOf(item, key)
		known[name] = true
		i := slices.IndexFunc(found, func(f any) bool { return nameOf(f, key) == name })
		switch {
		case i >= 0:
			c.compare(path+"["+name+"]", withoutAbsent(item), found[i])
		case !optional(item):
			c.differ(path+"["+name+"]", item, nil)
		}
	}
	for _, f := range found {
		if name := nameOf(f, key); !known[name] && !strings.HasSuffix(path, ".Tags") {
			c.differ(path+"["+name+"]", nil, f)
		}
	}
}

// optional says whether an entry may be missing.
func optional(item any) bool {
	e, ok := item.(either)
	return ok && (e.a == (any)(absent{}) || e.b == (any)(absent{}))
}

func withoutAbsent(item any) any {
	e, ok := item.(either)
	switch {
	case ok && e.a == (any)(absent{}):
		return e.b
	case ok && e.b == (any)(absent{}):
		return e.a
	}
	return item
}

// same compares plain values as AWS writes them: numbers and booleans may be texts.
func same(want, got any) bool { return got != nil && plain(want) == plain(got) }

func sameSet(want, got []any, ordered bool) bool {
	if slices.ContainsFunc(want, isChosen) {
		return len(got) > 0
	}
	a, b := plains(want), plains(got)
	if !ordered {
		slices.Sort(a)
		slices.Sort(b)
	}
	return slices.Equal(a, b)
}

func plains(list []any) []string {
	var all []string
	for _, v := range list {
		all = append(all, plain(v))
	}
	return all
}

func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int, bool:
		return fmt.Sprint(v)
	}
	return show(v)
}

// showLimit keeps a line of a table readable.
const showLimit = 120

// show is a value as people read it.
func show(v any) string {
	switch v := v.(type) {
	case nil, absent:
		return "nothing"
	case chosen:
		return "a value"
	case pattern:
		return shorten(v.text)
	case either:
		return show(withoutAbsent(v))
	case string:
		return shorten(v)
	case map[string]any, []any:
		text, err := json.Marshal(clean(v))
		if err != nil {
			return fmt.Sprint(v)
		}
		return shorten(string(text))
	}
	return plain(v)
}

func shorten(s string) string {
	if r := []rune(s); len(r) > showLimit {
		return string(r[:showLimit-1]) + "…"
	}
	return s
}

// clean replaces markers by what people read.
func clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, value := range v {
			m[name] = clean(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = clean(item)
		}
		return list
	case chosen, pattern, either:
		return show(v)
	}
	return v
}
