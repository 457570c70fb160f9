package localsqs

// keyHeap is a four-ary min-heap of items ordered by an int64 key. Keys are stored beside the pointers, so that sifting
// touches few cache lines; slot tells where an item keeps its one-based position, zero meaning absent.
type keyHeap[T any] struct {
	nodes []heapNode[T]
	slot  func(*T) *int32
}

type heapNode[T any] struct {
	key  int64
	item *T
}

const heapArity = 4

func (h *keyHeap[T]) len() int { return len(h.nodes) }

// min returns the item with the smallest key and that key, or nil.
func (h *keyHeap[T]) min() (*T, int64) {
	if len(h.nodes) == 0 {
		return nil, 0
	}
	return h.nodes[0].item, h.nodes[0].key
}

// set adds the item, or moves it to its new key.
func (h *keyHeap[T]) set(item *T, key int64) {
	at := int(*h.slot(item)) - 1
	if at < 0 {
		h.nodes = append(h.nodes, heapNode[T]{key, item})
		h.up(len(h.nodes) - 1)
		return
	}
	old := h.nodes[at].key
	h.nodes[at].key = key
	if key < old {
		h.up(at)
	} else if key > old {
		h.down(at)
	}
}

// remove takes the item out if it is in.
func (h *keyHeap[T]) remove(item *T) {
	at := int(*h.slot(item)) - 1
	if at < 0 {
		return
	}
	*h.slot(item) = 0
	last := len(h.nodes) - 1
	moved := h.nodes[last]
	h.nodes[last] = heapNode[T]{}
	h.nodes = h.nodes[:last]
	if at == last {
		return
	}
	removed := h.nodes[at].key
	h.place(at, moved)
	if moved.key < removed {
		h.up(at)
	} else {
		h.down(at)
	}
}

func (h *keyHeap[T]) place(at int, n heapNode[T]) {
	h.nodes[at] = n
	*h.slot(n.item) = int32(at + 1)
}

func (h *keyHeap[T]) up(at int) {
	n := h.nodes[at]
	for at > 0 {
		parent := (at - 1) / heapArity
		if h.nodes[parent].key <= n.key {
			break
		}
		h.place(at, h.nodes[parent])
		at = parent
	}
	h.place(at, n)
}

func (h *keyHeap[T]) down(at int) {
	n := h.nodes[at]
	for {
		first := at*heapArity + 1
		if first >= len(h.nodes) {
			break
		}
		least := first
		for c := first + 1; c < min(first+heapArity, len(h.nodes)); c++ {
			if h.nodes[c].key < h.nodes[least].key {
				least = c
			}
		}
		if n.key <= h.nodes[least].key {
			break
		}
		h.place(at, h.nodes[least])
		at = least
	}
	h.place(at, n)
}
