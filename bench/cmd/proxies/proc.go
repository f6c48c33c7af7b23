package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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

// cpu is the processor time that r has taken, its workers and its store included.
func (r *running) cpu() (sum time.Duration) {
	if r.store != nil {
		sum = r.store.cpu()
	}
	for _, pid := range tree(r.cmd.Process.Pid) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, path := range threads {
			data, _ := os.ReadFile(path)
			if fields := strings.Fields(string(data)); len(fields) > 0 { // the first is the time on a processor
				n, _ := strconv.ParseInt(fields[0], 10, 64)
				sum += time.Duration(n)
			}
		}
	}
	return sum
}

// memory is what r and its store hold, in MB, what its workers share counted once.
func (r *running) memory() (sum float64) {
	if r.store != nil {
		sum = r.store.memory()
	}
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
