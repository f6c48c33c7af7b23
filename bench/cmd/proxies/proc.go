package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc's times on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// tree is the process and those below it.
func tree(pid int) []int {
	all := []int{pid}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		below, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		for _, child := range strings.Fields(string(below)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, tree(n)...)
			}
		}
	}
	return all
}

// cpu is the processor time that r has taken, its workers included.
func (r *running) cpu() (sum time.Duration) {
	for _, pid := range tree(r.cmd.Process.Pid) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			continue
		}
		for _, f := range fields[11:13] { // user and system
			if n, err := strconv.ParseInt(f, 10, 64); err == nil {
				sum += time.Duration(n) * tick
			}
		}
	}
	return sum
}

// memory is what r holds, in MB, what its workers share counted once.
func (r *running) memory() (sum float64) {
	for _, pid := range tree(r.cmd.Process.Pid) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(data)) {
			if kb, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
				sum += n / 1024
			}
		}
	}
	return sum
}
