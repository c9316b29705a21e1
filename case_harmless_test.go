//go:build !race

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The guard is in nobody's way: it strikes no command that is in time, leaves nothing behind, holds nothing up, and is replaced.

var _ = caseHelper("guard:inherit", helpInherit)

// helpInherit FILE command... runs a command as the process that inherits orphans, and writes how many it inherited.
func helpInherit(args []string) int {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Run()
	n := 0
	for { // until there is none, however long it lives
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			break
		} else if err == nil {
			n++
		}
	}
	os.WriteFile(args[0], []byte(strconv.Itoa(n)), 0o600)
	return cmd.ProcessState.ExitCode()
}

// The guard is there while the command runs, named so that ps tells what it is, deaf to the signals that a terminal or a
// shutdown sends it, with none of the command's streams. Killed, it is followed by another, and the command goes on; that
// one does its work, too. When the command has ended it is gone.
func TestGuardLife(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p := caseStart(t, newHost(t, "web-1").command(caseRun("j", "--lease 4s", beating(t, log, "20ms", "4s")...)...))
	group := groupOf(t, log, "web-1")
	first := guardOf(t, group)
	for fd := range 3 {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", first, fd)); to != "/dev/null" {
			t.Errorf("the guard's descriptor %d is %q", fd, to)
		}
	}
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", first))
	for _, name := range all {
		if to, _ := os.Readlink(name); strings.HasPrefix(to, "socket:") || to == p.out || to == p.err {
			t.Errorf("the guard holds %s", to)
		}
	}
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", first)); cwd != "/" {
		t.Errorf("the guard is in %s", cwd)
	}
	eventually(t, "the guard listens", func() bool { return ignores(first, unix.SIGTERM) })
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		unix.Kill(first, s)
	}
	read := func() string { text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", first)); return string(text) }
	before := read()
	eventually(t, "the guard hears the next deadline", func() bool { return read() != before })
	if now := guardsOf(group); !slices.Equal(now, []int{first}) {
		t.Errorf("after HUP INT QUIT TERM: guards %v, want %d", now, first)
	}
	unix.Kill(first, unix.SIGKILL)
	guardOf(t, group, first)
	for _, proc := range processes() {
		if proc.pid == first && proc.parent == p.Process.Pid {
			t.Errorf("the killed guard is still there, in state %s", proc.state)
		}
	}
	p.wait().want(t, 0, "")
	eventually(t, "the guard is gone", func() bool { return len(guardsOf(group)) == 0 })
	wantWhole(t, log)
	wantEntry(t, "j", "done", 0, "", "")
}

// However low the priority that onceonly and its command were given, the guard wakes in time: where it may, it takes the
// highest. The command keeps its own.
func TestGuardIsUrgent(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		absent(t, "root, to take a priority")
	}
	e := newEnder(t)
	cmd := exec.Command("nice", slices.Concat([]string{"-n", "10", binary}, caseRun("j", "", e.command("0")...))...)
	cmd.Env = newHost(t, "web-1").env
	p := caseStart(t, cmd)
	eventually(t, "the command runs", e.up)
	group := childOf(t, p.Process.Pid)
	niceOf := func(pid int) int {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
		if err != nil {
			t.Fatal(err)
		}
		return 20 - n // as the system call has it
	}
	guard := guardOf(t, group)
	eventually(t, "the guard is urgent", func() bool { return niceOf(guard) == mostUrgent })
	ours, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if got, want := niceOf(group), min(20-ours+10, 19); got != want {
		t.Errorf("the command has nice %d, want %d", got, want)
	}
	e.end(t)
	p.wait().want(t, 0, "")
}

// ignores says whether a process ignores a signal.
func ignores(pid int, s unix.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, mask, _ := strings.Cut(string(text), "SigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	n, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && n>>(s-1)&1 == 1
}

// The guard, and onceonly, leave nobody a process to reap: below something that never does, as in many containers, each run
// would leave a zombie.
func TestGuardLeavesNoProcess(t *testing.T) {
	t.Parallel()
	underLoad(t)
	var mu sync.Mutex
	runs, left := 0, 0
	for range rounds(2, 10) {
		atOnce([]string{"a", "b", "c", "d", "e", "f", "g", "h"}, func(job string) {
			count := filepath.Join(t.TempDir(), "count")
			h := newHost(t, "web-1", "ONCEONLY_NAMESPACE="+namespaceOf(t)+filepath.Base(filepath.Dir(count)))
			cmd := exec.Command(caseSelf(t), slices.Concat([]string{"guard:inherit", count, binary}, caseRun(job, "", "sleep", "1.1"))...)
			cmd.Env = h.env
			caseStart(t, cmd).wait().want(t, 0, "")
			n, err := strconv.Atoi(strings.Join(lines(count), ""))
			mu.Lock()
			defer mu.Unlock()
			if runs++; err != nil || n > 0 {
				left++
			}
		})
	}
	if left > 0 {
		t.Errorf("%d of %d runs left a dead process to whoever inherits it", left, runs)
	}
}

// `onceonly run … | cat` ends when the command ends: nothing else holds the pipe.
func TestGuardHoldsNoStream(t *testing.T) {
	t.Parallel()
	e := newEnder(t)
	out, in := casePipe(t)
	cmd := newHost(t, "web-1").command(caseRun("j", "", e.command("0")...)...)
	cmd.Stdout, cmd.Stderr = in, in
	p := caseStart(t, cmd)
	in.Close()
	guardOf(t, childOf(t, p.Process.Pid))
	e.end(t)
	dead := time.Now()
	if text, _ := io.ReadAll(out); len(text) > 0 {
		t.Errorf("read %q", text)
	}
	if took := time.Since(dead); took > 500*time.Millisecond {
		t.Errorf("the pipe ended %v after the command", took)
	}
	p.wait().want(t, 0, "")
}

// underLoad keeps the processors busy until the test ends: by processes, for the test's own goroutines have the tests beside it
// to serve.
func underLoad(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		caseStart(t, exec.Command("sh", "-c", "while kill -0 $PPID; do :; done"))
	}
}

// No false alarm: runs that a guard is just started for, under load, with a runtime as slow as it gets.
func TestGuardNoFalseAlarm(t *testing.T) {
	t.Parallel()
	underLoad(t)
	h := newHost(t, "web-1", "GOMAXPROCS=1", "GOGC=1")
	var jobs []string
	for k := range 20 {
		jobs = append(jobs, fmt.Sprint("j", k))
	}
	for group := range slices.Chunk(jobs, 5) {
		atOnce(group, func(job string) {
			caseStart(t, h.command(caseRun(job, "", "sleep", "1.2")...)).wait().want(t, 0, "")
			wantEntry(t, job, "done", 0, "", "")
		})
	}
}

// What a command leaves in the background is left alone, also where a guard watched the command: onceonly ends within a
// second of it, with its status, and the lease is free. (SH-46)
func TestGuardLeavesTheBackground(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words  string
		status int
	}{
		"background": {`sleep 60 & echo $$ $!; sleep 1.2; exit 0`, 0}, "fails": {`sleep 60 & echo $$ $!; sleep 1.2; exit 4`, 4},
		"setsid": {`setsid sleep 60 & echo $$ $!; sleep 1.2; exit 0`, 0}, "short": {`sleep 60 & echo $$ $!; exit 0`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := caseStart(t, newHost(t, "web-1").command(caseRun("j", "", "sh", "-c", c.words)...)).wait()
			r.want(t, c.status, "")
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			var group, left int // the shell leads the group
			if _, err := fmt.Sscan(r.stdout, &group, &left); err != nil {
				t.Fatalf("%v", r)
			}
			defer unix.Kill(left, unix.SIGKILL)
			eventually(t, "no guard is left that could strike", func() bool { return len(guardsOf(group)) == 0 })
			if !slices.ContainsFunc(processes(), func(p procStat) bool { return p.pid == left && p.state != "Z" }) {
				t.Error("what ran in the background is dead")
			}
			if isHeld(t, "j") {
				t.Error("the lease is still held")
			}
			wantEntry(t, "j", map[bool]string{true: "done", false: "failed"}[c.status == 0], c.status, "", "")
		})
	}
}

// Guards that are killed as soon as they are there follow each other once a second, not as fast as the machine can: what ends
// one may end them all. The command goes on, and has a guard once that is over.
func TestGuardFollowedOnceASecond(t *testing.T) {
	t.Parallel()
	e, h := newEnder(t), newHost(t, "web-1")
	p := caseStart(t, h.command(caseRun("j", "", e.command("0")...)...))
	group := childOf(t, p.Process.Pid)
	guards := []int{guardOf(t, group)}
	first := time.Now()
	for n := range 4 { // the first is followed at once
		unix.Kill(guards[n], unix.SIGKILL)
		guards = append(guards, guardOf(t, group, guards...))
	}
	if took := time.Since(first); took < 3*guardAfter {
		t.Errorf("4 guards were followed in %v", took)
	}
	e.end(t)
	p.wait().want(t, 0, "")
}

// The program's file is replaced while it runs, as an upgrade does: the guard is the program that runs, not the new one. Its
// short name is not onceonly's: killall onceonly leaves it to its work.
func TestGuardOfTheSameProgram(t *testing.T) {
	t.Parallel()
	dir, e := t.TempDir(), newEnder(t)
	program, started := filepath.Join(dir, "onceonly"), filepath.Join(dir, "started")
	copyFile(t, binary, program)
	cmd := newHost(t, "web-1").command(caseRun("j", "", e.command("0")...)...)
	cmd.Path = program
	p := caseStart(t, cmd)
	group := childOf(t, p.Process.Pid)
	caseTouch(t, program+".new", "#!/bin/sh\necho x >>"+started+"\n")
	if err := errors.Join(os.Chmod(program+".new", 0o755), os.Rename(program+".new", program)); err != nil {
		t.Fatal(err)
	}
	guard := guardOf(t, group)
	eventually(t, "the guard has a short name", func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", guard))
		return string(name) == "guard\n"
	})
	e.end(t)
	p.wait().want(t, 0, "")
	if n := len(lines(started)); n > 0 {
		t.Errorf("the new program was started %d times", n)
	}
}

// A guard that was held up past an old deadline, and finds newer ones when it comes to itself, strikes nobody.
func TestGuardHeldUp(t *testing.T) {
	t.Parallel()
	atOnce([]string{"a", "b", "c", "d"}, func(job string) {
		log := filepath.Join(t.TempDir(), "log")
		p := caseStart(t, newHost(t, "web-1").command(caseRun(job, "--lease 2s", beating(t, log, "20ms", "6s")...)...))
		guard := guardOf(t, groupOf(t, log, "web-1"))
		unix.Kill(guard, unix.SIGSTOP)
		old := bootNow().add(2 * time.Second) // no deadline that the guard has read is later: the lease is as long
		eventually(t, "the command outlives them", func() bool { all := beatsOf(log); return all[len(all)-1].at > old })
		unix.Kill(guard, unix.SIGCONT)
		if r := p.wait(); r.status != 0 {
			t.Errorf("%v", r)
		}
	})
}

// A guard that does not read what it is told must not hold up the renewals. It is killed, and replaced as one that died.
func TestGuardDoesNotRead(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &guard{process: cmd.Process, pipe: write, ended: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(g.ended)
	}()
	told := 0
	for alive := true; alive; told++ {
		g.tell(bootNow())
		select {
		case <-g.gone():
			alive = false
		default:
		}
	}
	if told < 1000 {
		t.Errorf("killed when it had been told %d deadlines", told)
	}
	g.dismiss()
}
