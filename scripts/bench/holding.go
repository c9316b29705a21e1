//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// holding shows what onceonly and its guard take while the command runs.
func (b *bench) holding() error {
	run, _ := b.wrappers("holding", fmt.Sprintf("redis://127.0.0.1:%d/0", b.port))
	cmd := exec.CommandContext(b.ctx, b.onceonly, "run", "--job", "hold", "--date", "2020-01-01", "--", "sleep", "3600")
	cmd.Env = append(os.Environ(), run.env...)
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(os.Interrupt)
	wrapper, guard := cmd.Process.Pid, 0
	for deadline := time.Now().Add(10 * time.Second); guard == 0; time.Sleep(50 * time.Millisecond) {
		if guard = guardOf(wrapper); guard == 0 && time.Now().After(deadline) {
			return fmt.Errorf("no guard beside %d", wrapper)
		}
	}
	before := cpu(wrapper) + cpu(guard)
	select {
	case <-time.After(b.hold):
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	fmt.Printf("\nholding a lease of 5m for %v\n\n", b.hold)
	for name, pid := range map[string]int{"onceonly": wrapper, "its guard": guard} {
		resident, private := memory(pid)
		fmt.Printf("  %-28s %5.1f MB resident, %4.1f MB private\n", name, resident, private)
		target("resident, MB", resident, 12)
		target("private, MB", private, 2)
	}
	fmt.Printf("  %-28s %v\n", "processor time of both", cpu(wrapper)+cpu(guard)-before)
	return nil
}

// guardOf is the process that watches over a wrapper, as its name says; 0 if there is none.
func guardOf(wrapper int) int {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", wrapper))
	for _, name := range children {
		text, _ := os.ReadFile(name)
		for _, word := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + word + "/cmdline")
			if strings.HasPrefix(string(line), "onceonly: guard") {
				pid, _ := strconv.Atoi(word)
				return pid
			}
		}
	}
	return 0
}

// memory is what a process holds, and what it holds alone, in MB.
func memory(pid int) (resident, private float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		switch kb, _ := strconv.ParseFloat(words[1], 64); words[0] {
		case "Rss:":
			resident = kb / 1024
		case "Private_Clean:", "Private_Dirty:":
			private += kb / 1024
		}
	}
	return resident, private
}

// cpu is the processor time that a process has used, in the kernel's ticks of 10 ms.
func cpu(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	words, ticks := strings.Fields(rest), 0
	for _, i := range []int{11, 12} {
		if i < len(words) {
			n, _ := strconv.Atoi(words[i])
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
