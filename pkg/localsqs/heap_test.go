package localsqs

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type heapItem struct {
	key  int64
	slot int32
}

func TestHeapKeepsTheSmallestFirstThroughAnyChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := keyHeap[heapItem]{slot: func(i *heapItem) *int32 { return &i.slot }}
		var in []*heapItem
		anyItem := func() *heapItem {
			if len(in) == 0 {
				t.Skip("empty")
			}
			return rapid.SampledFrom(in).Draw(t, "item")
		}
		key := rapid.Int64Range(0, 50)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := &heapItem{key: key.Draw(t, "key")}
				in = append(in, i)
				h.set(i, i.key)
			},
			"move": func(t *rapid.T) {
				i := anyItem()
				i.key = key.Draw(t, "key")
				h.set(i, i.key)
			},
			"remove": func(t *rapid.T) {
				i := anyItem()
				in = slices.DeleteFunc(in, func(x *heapItem) bool { return x == i })
				h.remove(i)
				h.remove(i) // absent: nothing happens
			},
			"": func(t *rapid.T) {
				first, least := h.min()
				if h.len() != len(in) {
					t.Fatalf("%d items, want %d", h.len(), len(in))
				}
				for _, i := range in {
					if i.key < least || h.nodes[i.slot-1].item != i {
						t.Fatalf("item with key %d at %d, least is %d", i.key, i.slot, least)
					}
				}
				if first != nil && first.key != least {
					t.Fatal("the key is not the item's")
				}
			},
		})
	})
}
