package localecs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// slot is one place for a task: it holds one process after another until it is retired or the cluster stops.
type slot struct {
	name    string
	retire  context.CancelFunc
	retired bool  // guarded by Cluster.mu
	task    *task // nil between two lives; guarded by Cluster.mu
}

func (s *slot) protected(now time.Time) bool {
	return s.task != nil && s.task.protected(now)
}

// open adds a slot and its keeper. The caller holds c.mu.
func (c *Cluster) open(s *service, ordinal int) {
	ctx, cancel := context.WithCancel(c.life)
	place := &slot{name: s.Name + "-" + strconv.Itoa(ordinal), retire: cancel}
	s.slots[ordinal] = place
	c.keepers.Go(func() {
		defer cancel()
		c.keep(ctx, s, place)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(s.slots, ordinal)
		c.settle(s)
	})
}

// keep runs one process after another until ctx ends.
func (c *Cluster) keep(ctx context.Context, s *service, place *slot) {
	deaths := 0
	for ctx.Err() == nil {
		started := time.Now()
		tail, err := c.live(ctx, s, place)
		if ctx.Err() != nil {
			c.note(place, err)
			return
		}
		if time.Since(started) >= healthyAfter {
			deaths = 0
		}
		deaths++
		wait := restartWait(deaths)
		if c.cfg.Died != nil {
			c.cfg.Died(Death{Task: place.name, Cause: err, Restart: wait, InARow: deaths, Tail: tail, LogFile: c.logFile(place.name)})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// note keeps what Run has to say of a stopped task.
func (c *Cluster) note(place *slot, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, errOverdue) {
		c.overdue = append(c.overdue, fmt.Errorf("worker %s %w", place.name, errOverdue))
	}
}

// restartWait doubles from half a second to half a minute.
func restartWait(deaths int) time.Duration {
	wait := firstWait
	for ; deaths > 1 && wait < maxWait; deaths-- {
		wait *= 2
	}
	return min(wait, maxWait)
}

// live runs one process to its end and returns the last lines that it wrote.
func (c *Cluster) live(ctx context.Context, s *service, place *slot) ([]string, error) {
	log, err := openLog(c.logFile(place.name))
	if err != nil {
		return nil, err
	}
	defer log.close()
	temp, err := os.MkdirTemp(c.cfg.TempDir, place.name+"-")
	if err != nil {
		return nil, fmt.Errorf("make the folder for temporary files of %s: %w", place.name, err)
	}
	defer os.RemoveAll(temp)
	t, err := c.start(s, place, temp, log)
	if err != nil {
		return nil, err
	}
	defer c.end(s, place, t)
	err = t.wait(ctx, s.StopTimeout, log.trim)
	return log.tail(), err
}

// start launches a process and makes it known to the agent. The lock is held over both, so that the worker's first request
// to its agent finds it.
func (c *Cluster) start(s *service, place *slot, temp string, log *logFile) (*task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := newTask(s, place)
	env := append(append([]string{}, s.Env...),
		"TMPDIR="+temp,
		"FLEET_PARENT_FD="+strconv.Itoa(lifelineFD),
		"ECS_AGENT_URI="+c.agent+"/api/"+t.token,
		"ECS_CONTAINER_METADATA_URI_V4="+c.agent+"/v4/"+t.token)
	if err := t.start(s.Binary, env, log.file); err != nil {
		return nil, err
	}
	c.tasks[t.token] = t
	place.task = t
	return t, nil
}

// end forgets a process; its protection dies with it.
func (c *Cluster) end(s *service, place *slot, t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.forget()
	delete(c.tasks, t.token)
	place.task = nil
	c.settle(s)
}

func (c *Cluster) logFile(task string) string {
	return filepath.Join(c.cfg.LogDir, task+".log")
}
