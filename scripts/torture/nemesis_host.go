//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Faults of the hosts' resources.

func ctxNow() context.Context { return context.Background() }

const hogs = 32 // processes that want a processor each

// exhaust takes the processors, a host's memory, or its state directory's room, or some of these.
func (s *scene) exhaust(r *rand.Rand) {
	h := pick(r, s.hosts...)
	what := 1 + r.IntN(7)
	if s.brief {
		what = 7
	}
	if what&1 != 0 {
		s.full = true
		ended := s.history.begin("N10", h.name, "state directory full")
		defer ended()
		defer h.fill()()
		if os.WriteFile(filepath.Join(h.state, "room"), make([]byte, 4096), 0o600) != nil {
			s.history.acted("N10")
		}
	}
	if what&2 != 0 && h.memory != nil {
		ended := s.history.begin("N10", h.name, memoryFull)
		defer ended()
		defer h.memory.exhaust(s)()
	}
	if what&4 != 0 {
		ended := s.history.begin("N10", "", "processors taken")
		defer ended()
		for range hogs {
			hog := &server{name: "hog", dir: s.dir, args: []string{s.stage.self, "hog"}, last: syscall.SIGKILL}
			if hog.start() == nil {
				s.history.acted("N10")
				defer hog.kill()
			}
		}
	}
	s.pause(between(r, 500*time.Millisecond, 2*s.longestLease()))
}

// hogMain wants a processor.
func hogMain() int {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		for range 1 << 20 {
		}
	}
	return 0
}

// fill lets nothing more be written into the state directory until the function that it returns is called: a full file
// system where one can be mounted, else a file in the directory's place. What was in it comes back.
func (h *host) fill() func() {
	if os.Getenv(envWorld) != "" && syscall.Mount("torture", h.state, "tmpfs", 0, "size=64k,mode=700") == nil {
		os.WriteFile(filepath.Join(h.state, "full"), make([]byte, 1<<20), 0o600)
		return func() { syscall.Unmount(h.state, syscall.MNT_DETACH) }
	}
	os.Rename(h.state, h.state+".away")
	os.WriteFile(h.state, nil, 0o600)
	return func() {
		os.Remove(h.state)
		os.Rename(h.state+".away", h.state)
	}
}
