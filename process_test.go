package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that a test has started and that goes on beside it: onceonly in a process group of its own, many at one
// instant, or one that writes into files; whether its command is there, and when the last of its processes is dead.

// A process is an onceonly that was started, in a process group of its own.
type process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
	began    time.Time
}

func (h *host) start(args ...string) *process {
	h.t.Helper()
	p := &process{cmd: h.command(args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	h.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// result waits for the end, with a deadline.
func (p *process) result(t *testing.T) result {
	t.Helper()
	eventually(t, "onceonly ends: "+strings.Join(p.cmd.Args, " "), p.ended)
	return result{p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String()}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// atOneInstant runs onceonly on n hosts that begin at one instant.
func atOneInstant(t *testing.T, n int, args []string) []result {
	t.Helper()
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	cmds, outs := make([]*exec.Cmd, n), make([]struct{ out, err bytes.Buffer }, n)
	for i := range n {
		h := newHost(t, "web-"+strconv.Itoa(i))
		cmds[i] = exec.Command("sh", append([]string{"-c", `read gate; exec "$0" "$@"`, binary}, args...)...)
		cmds[i].Env, cmds[i].Stdin = h.env, gate
		cmds[i].Stdout, cmds[i].Stderr = &outs[i].out, &outs[i].err
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	open.Close()
	var all []result
	for i, cmd := range cmds {
		all = append(all, result{exitStatus(t, cmd.Wait()), outs[i].out.String(), outs[i].err.String()})
	}
	return all
}

// A caseProc is a started process, and the files that it writes into.
type caseProc struct {
	*exec.Cmd
	t        *testing.T
	out, err string
	ended    chan error
}

// caseStart starts a process. Files take what it prints, so that nobody waits for what it leaves running.
func caseStart(t *testing.T, cmd *exec.Cmd) *caseProc {
	t.Helper()
	dir := t.TempDir()
	p := &caseProc{cmd, t, filepath.Join(dir, "out"), filepath.Join(dir, "err"), make(chan error, 1)}
	if cmd.Stdout == nil {
		cmd.Stdout = caseCreate(t, p.out)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = caseCreate(t, p.err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { p.ended <- cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		if <-gone; t.Failed() {
			said, _ := os.ReadFile(p.err)
			t.Logf("%q: %v, having said %q", cmd.Args, cmd.ProcessState, said)
		}
	})
	return p
}

func caseCreate(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// wait waits for the end, with a deadline. The status is what a shell sees.
func (p *caseProc) wait() result {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
	case <-time.After(20 * time.Second):
		out, _ := os.ReadFile(p.out)
		said, _ := os.ReadFile(p.err)
		p.t.Fatalf("%q never ended; stdout %q, stderr %q", p.Args, out, said)
	}
	out, _ := os.ReadFile(p.out)
	said, _ := os.ReadFile(p.err)
	return result{shellStatus(p.ProcessState), string(out), string(said)}
}

func shellStatus(state *os.ProcessState) int {
	if w := state.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}

// say sends a signal to the process alone.
func (p *caseProc) say(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Errorf("%v: %v", s, err)
	}
}

// childOf waits until a process has a child that runs another program, and returns its ID.
func childOf(t *testing.T, pid int) (child int) {
	t.Helper()
	eventually(t, "the command has started", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		child = 0
		for _, thread := range threads { // the one that has started it
			text, _ := os.ReadFile(thread)
			if n, _ := fmt.Sscan(string(text), &child); n == 1 {
				break
			}
		}
		if child == 0 {
			return false
		}
		mine, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", child))
		return theirs != "" && theirs != mine
	})
	return child
}

// newFIFO is a pipe with a name: a shell that reads from it waits, and has no other process that waits for it.
func newFIFO(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A lifeline is a FIFO that a command's processes hold open for writing: gone is closed when the last of them is dead.
type lifeline struct {
	name string
	gone chan struct{}
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	l := &lifeline{newFIFO(t), make(chan struct{})}
	go func() {
		f, err := os.Open(l.name)
		if err != nil {
			return
		}
		io.Copy(io.Discard, f)
		close(l.gone)
	}()
	return l
}

func (l *lifeline) cut(t *testing.T) {
	t.Helper()
	select {
	case <-l.gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the command's processes never died")
	}
}

func (l *lifeline) held() bool {
	select {
	case <-l.gone:
		return false
	default:
		return true
	}
}

// heldFor says whether it is held now and in a while.
func (l *lifeline) heldFor(d time.Duration) bool {
	select {
	case <-l.gone:
		return false
	case <-time.After(d):
		return true
	}
}
