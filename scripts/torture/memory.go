//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A memory is a control group that what runs on one host is charged to.
type memory struct {
	dir         string
	limit, used string // the names of files
}

const spare = 512 << 20 // bytes that a host has left before they are taken

// newMemory returns nil where the machine allows none.
func newMemory(name string) *memory {
	for _, m := range []memory{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
		{"/sys/fs/cgroup", "memory.max", "memory.current"},
	} {
		m.dir = filepath.Join(m.dir, name)
		if os.Mkdir(m.dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(m.dir, m.limit)); err == nil {
			return &m
		}
		os.Remove(m.dir)
	}
	return nil
}

// bound charges a process, and what it starts, to the group.
func (m *memory) bound(pid int) {
	if m != nil {
		os.WriteFile(filepath.Join(m.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
	}
}

const memoryFull = "memory full"

// starves says whether hosts may be left without the memory that a guard needs.
func (s *scene) starves() bool { return slices.Contains(s.nemeses, "N10") }

// exhaust takes all that is left again and again, until the function that it returns is called. Each time that nothing is
// left, the kernel holds up who wants some until it has killed who took it, and on a busy machine others too.
func (m *memory) exhaust(s *scene) func() {
	text, _ := os.ReadFile(filepath.Join(m.dir, m.used))
	used, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	os.WriteFile(filepath.Join(m.dir, m.limit), []byte(strconv.Itoa(used+spare)), 0o600)
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			glutton := &server{name: "glutton", dir: s.dir, args: []string{s.stage.self, "glutton"}, last: syscall.SIGKILL}
			if glutton.start() != nil {
				return
			}
			m.bound(glutton.cmd.Process.Pid)
			select {
			case <-glutton.ended:
				if !glutton.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
					s.stage.logf("s%d: %s", s.number, glutton.output())
					return
				}
				s.history.acted("N10")
			case <-over:
				glutton.kill()
				return
			}
		}
	})
	return func() {
		close(over)
		work.Wait()
		os.WriteFile(filepath.Join(m.dir, m.limit), []byte("max"), 0o600)
		os.WriteFile(filepath.Join(m.dir, m.limit), []byte("-1"), 0o600) // the older kind's word
	}
}

func (m *memory) remove() {
	if m != nil {
		await("", 5*time.Second, func() bool { return os.Remove(m.dir) == nil })
	}
}

// gluttonMain wants all memory, once it is charged to a host, and is the first to be killed for it.
func gluttonMain() int {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	for before := string(own); string(own) == before; own, _ = os.ReadFile("/proc/self/cgroup") {
		time.Sleep(time.Millisecond)
	}
	var all [][]byte
	for range 4 * spare >> 20 {
		mb := make([]byte, 1<<20)
		for i := 0; i < len(mb); i += 4096 {
			mb[i] = 1
		}
		all = append(all, mb)
	}
	fmt.Fprintln(os.Stderr, "not bounded:", len(all), "MB")
	time.Sleep(time.Minute)
	return 1
}
