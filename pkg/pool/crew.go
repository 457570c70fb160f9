package pool

import "sync"

// crew does tasks in goroutines that stay for more, the one that was busy last being the first to be called again: its stack has
// grown, and a stack that waits for long is shrunk. Whoever takes a task calls another goroutine first if more tasks wait. So tasks
// that are over at once share a goroutine or two, and tasks that last have one each.
type crew[T any] struct {
	do    func(T)
	most  int             // tasks under way at once; 0: any number
	keep  int             // goroutines that wait for tasks
	tasks *sync.WaitGroup // has the goroutines; nil: nobody waits for them

	mu      sync.Mutex
	waiting []T // from head on
	head    int
	idle    []chan struct{} // of the goroutines that wait, the last to have worked at the end
	live    int
	calling bool // a goroutine has been called that has not come yet
	closed  bool
}

// put hands over tasks, which are begun in their order. It never blocks.
func (c *crew[T]) put(ts ...T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head > 0 && len(c.waiting)+len(ts) > cap(c.waiting) {
		n := copy(c.waiting, c.waiting[c.head:])
		clear(c.waiting[n:])
		c.waiting, c.head = c.waiting[:n], 0
	}
	c.waiting = append(c.waiting, ts...)
	c.call()
}

// call gets one more goroutine to work if there is something to do. It runs under mu.
func (c *crew[T]) call() {
	if c.calling || c.head == len(c.waiting) {
		return
	}
	if last := len(c.idle) - 1; last >= 0 {
		c.calling = true
		c.idle[last] <- struct{}{}
		c.idle = c.idle[:last]
		return
	}
	if c.most > 0 && c.live == c.most {
		return
	}
	c.calling = true
	c.live++
	if c.tasks != nil {
		c.tasks.Go(c.member)
	} else {
		go c.member()
	}
}

// member does tasks until there are too many who wait for one, or until the crew is closed and has none. A task that ends its
// goroutine ends a member.
func (c *crew[T]) member() {
	called := make(chan struct{}, 1)
	c.mu.Lock()
	defer func() {
		c.live--
		c.mu.Unlock()
	}()
	c.calling = false
	for {
		if c.head < len(c.waiting) {
			c.doNext()
			continue
		}
		if c.closed || len(c.idle) >= c.keep {
			return
		}
		c.idle = append(c.idle, called)
		c.mu.Unlock()
		<-called
		c.mu.Lock()
		c.calling = false
	}
}

// doNext does the task that has waited longest. It runs under mu, and leaves it meanwhile.
func (c *crew[T]) doNext() {
	var none T
	t := c.waiting[c.head]
	c.waiting[c.head] = none
	if c.head++; c.head == len(c.waiting) {
		c.waiting, c.head = c.waiting[:0], 0
	}
	c.call()
	c.mu.Unlock()
	defer c.mu.Lock()
	c.do(t)
}

// close sends the waiting goroutines home. What is put later is done all the same.
func (c *crew[T]) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, called := range c.idle {
		called <- struct{}{}
	}
	c.idle = nil
}
