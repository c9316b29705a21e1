//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const settled = 2 * time.Second // the guard starts after one

// hold looks at onceonly and its guard while the command runs.
func hold(p *place, o options) error {
	s, err := p.newStore()
	if err != nil {
		return err
	}
	cmd := p.onceonly(s.url(), "web-1", "run", "--job", "hold", "--date", "2000-01-01", "--", "sleep", "86400")
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}()
	pid := cmd.Process.Pid
	guard := 0
	if err := p.await("guard", func() bool { guard = guardOf(pid); return guard > 0 }); err != nil {
		return err
	}
	time.Sleep(settled)
	title("holding, watched for %v", o.hold)
	before := []time.Duration{cpu(pid), cpu(guard)}
	time.Sleep(o.hold)
	for i, process := range []int{pid, guard} {
		name := []string{"onceonly", "guard"}[i]
		m := memory(process)
		row(name+", resident", m["Rss"]/1024, "MB", 12)
		row(name+", private", m["Anonymous"]/1024, "MB", 2)
		row(name+", CPU time", ms(cpu(process)-before[i]), "ms", 0)
	}
	return p.ctx.Err()
}

// guardOf finds the child whose first word says that it is the guard; 0 if there is none yet.
func guardOf(pid int) int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(text)) {
			words, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if strings.HasPrefix(string(words), "onceonly: guard") {
				n, _ := strconv.Atoi(child)
				return n
			}
		}
	}
	return 0
}

// memory is what the kernel says of a process, in kB. Its own is what is Anonymous: pages of the binary are one copy for all
// of a machine, but those that only one process has mapped just now are counted as private to it.
func memory(pid int) map[string]float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(line, ":"); ok {
			all[name], _ = strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		}
	}
	return all
}

// cpu is the time that all threads were on a processor; /proc/PID/stat counts in steps of 10 ms.
func cpu(pid int) (all time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(first)
		all += time.Duration(n)
	}
	return all
}
