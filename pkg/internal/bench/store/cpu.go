package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// meter measures a stretch of work: wall time, and the CPU time of this process and of a server with its children.
type meter struct {
	at             time.Time
	server         int
	client, served time.Duration
}

func startMeter(server int) meter {
	return meter{at: time.Now(), server: server, client: ownCPU(), served: treeCPU(server)}
}

// rate makes the result of n pieces of work.
func (m meter) rate(name, workload string, n int) result {
	wall := time.Since(m.at)
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return result{
		Name: name, Workload: workload, Rate: float64(n) / wall.Seconds(), Seconds: wall.Seconds(),
		ClientUs: per(ownCPU() - m.client), ServerUs: per(treeCPU(m.server) - m.served),
	}
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// treeCPU is the CPU time of a process, of its children, and of those that have ended.
func treeCPU(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on Linux
	total := time.Duration(0)
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // a constant pattern
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		own := filepath.Base(filepath.Dir(f)) == fmt.Sprint(pid)
		if !own && fields[1] != fmt.Sprint(pid) {
			continue
		}
		columns := fields[11:13]
		if own {
			columns = fields[11:15]
		}
		for _, c := range columns {
			n, _ := strconv.ParseInt(c, 10, 64) // the kernel writes numbers
			total += time.Duration(n) * tick
		}
	}
	return total
}
