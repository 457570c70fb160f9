package pool

import "sync"

// maxUndeleted bounds the memory of finished messages whose delete was not confirmed in time.
const maxUndeleted = 4096

// undeleted remembers messages whose work is done and which the queue may deliver again all the same, so that they are deleted then
// and not run. It serves pools without a Ledger: a record knows what is done, beyond this process too. The oldest are forgotten first.
type undeleted struct {
	mu    sync.Mutex
	ids   map[string]struct{}
	order []string
}

func (u *undeleted) has(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.ids[id]
	return ok
}

func (u *undeleted) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.ids[id]; ok {
		return
	}
	if len(u.order) == maxUndeleted {
		delete(u.ids, u.order[0])
		u.order = u.order[1:]
	}
	if u.ids == nil {
		u.ids = map[string]struct{}{}
	}
	u.ids[id] = struct{}{}
	u.order = append(u.order, id)
}
