//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Processes: servers that are started, killed and always reaped by their number, and what /proc says about others.

// A server is a process that stays until it is stopped. It may be started again.
type server struct {
	name  string
	args  []string
	env   []string
	dir   string
	as    *syscall.Credential
	last  syscall.Signal // what asks it to end
	cmd   *exec.Cmd
	ended chan struct{}
}

func (s *server) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, s.name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), s.env...)
	// Should this program be killed, nothing stays behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: s.last, Credential: s.as}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return nil
}

// alive says whether the process runs.
func (s *server) alive() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// kill ends it by KILL.
func (s *server) kill() { s.end(syscall.SIGKILL) }

// stop asks it to end, and kills it if it does not.
func (s *server) stop() { s.end(s.last) }

func (s *server) end(signal syscall.Signal) {
	if s.cmd == nil {
		return
	}
	s.signal(syscall.SIGCONT)
	s.signal(signal)
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		s.signal(syscall.SIGKILL)
		<-s.ended
	}
}

// signal reaches only a process that is not yet reaped.
func (s *server) signal(signal syscall.Signal) {
	if s.alive() {
		s.cmd.Process.Signal(signal)
	}
}

// output is the end of what it has said, for an error message.
func (s *server) output() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, s.name+".out"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// await waits for a fact.
func await(what string, patience time.Duration, fact func() bool) error {
	for deadline := time.Now().Add(patience); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
	return nil
}

// A process is what /proc says about one.
type process struct {
	pid, parent, group int
	dead               bool
}

// processes lists all that are there.
func processes() []process {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	all := make([]process, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		end := strings.LastIndexByte(string(text), ')')
		if err != nil || end < 0 {
			continue
		}
		fields := strings.Fields(string(text[end+1:]))
		if len(fields) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, _ := strconv.Atoi(fields[1])
		group, _ := strconv.Atoi(fields[2])
		all = append(all, process{pid, parent, group, fields[0] == "Z" || fields[0] == "X"})
	}
	return all
}

// guardOf is the guard of a wrapper, 0 if there is none.
func guardOf(wrapper int) int {
	for _, p := range processes() {
		if p.parent == wrapper && !p.dead && strings.HasPrefix(commandLine(p.pid), "onceonly: guard") {
			return p.pid
		}
	}
	return 0
}

func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(text)
}

// variable is a variable of a process's environment.
func variable(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for v := range strings.SplitSeq(string(text), "\x00") {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// send signals processes; it says whether the first was there.
func send(signal unix.Signal, pids ...int) bool {
	there := false
	for i, pid := range pids {
		if pid != 0 && unix.Kill(pid, signal) == nil && i == 0 {
			there = true
		}
	}
	return there
}
