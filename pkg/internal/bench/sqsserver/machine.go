package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the kernel's unit of processor time.
const tick = 10 * time.Millisecond

// reading is the state of all counters at one moment.
type reading struct {
	at                 time.Time
	consumed, receives int64
	server, client     time.Duration // processor time used
	busy, all          int64         // ticks of the whole machine
}

func (l *load) reading(server *process) reading {
	r := reading{at: time.Now(), consumed: l.consumed.Load(), receives: l.receives.Load(), server: server.cpu(), client: ownCPU()}
	r.busy, r.all = machineTicks()
	return r
}

func (r reading) since(before reading) result {
	n := float64(max(1, r.consumed-before.consumed))
	return result{
		rate: n / r.at.Sub(before.at).Seconds(), cost: float64((r.server - before.server).Microseconds()) / n,
		clientCost: float64((r.client - before.client).Microseconds()) / n,
		busy:       float64(r.busy-before.busy) / float64(max(1, r.all-before.all)),
		receives:   n / float64(max(1, r.receives-before.receives)),
	}
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// machineTicks reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func machineTicks() (busy, all int64) {
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseInt(field, 10, 64)
		if i > 7 {
			break // guests are in user already
		}
		all += n
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, all
}

// cpu reads the processor time that the process has used.
func (s *process) cpu() time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// residentMiB reads the resident memory of the process.
func (s *process) residentMiB() float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kib) / 1024
		}
	}
	return 0
}

func machine() string {
	version, _ := os.ReadFile("/proc/version")
	load, _ := os.ReadFile("/proc/loadavg")
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	cores, model := 0, ""
	for line := range strings.Lines(string(cpuinfo)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			cores++
			model = strings.Trim(name, "\t :\n")
		}
	}
	words := strings.Fields(string(version) + " ? ? ?")
	return fmt.Sprintf("%d x %s, Linux %s, load before %s", cores, model, words[2], strings.Fields(string(load) + " ?")[0])
}
