package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when onceonly dies, even by KILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = unix.SIGKILL }

const (
	endedNow   = 1
	stoppedNow = 5 // CLD_STOPPED of <signal.h>
)

// stopHere stops the whole process, and does not return before it goes on: a signal to the process may be any thread's, and
// this one would run on for a moment.
func stopHere() { unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP) }

// isStopped says whether a process was stopped, by a signal or by its terminal.
func isStopped(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" T"))
}

// nameProcess sets the short name that ps, pgrep and killall go by.
func nameProcess(name string) {
	text := append([]byte(name), 0)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
}

// hasEnded says whether the process has ended and is not yet reaped.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// groupLives says whether a process of the group is left that has not ended. To send signal 0 would not tell: a leader that
// is not reaped counts.
func groupLives(group int) bool {
	return slices.ContainsFunc(procs(), func(p proc) bool { return p.group == group && !p.dead })
}

// deadBelow are the processes whose parent has not reaped them.
func deadBelow(parent int) (pids []int) {
	for _, p := range procs() {
		if p.parent == parent && p.dead {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// A proc is what /proc says of a process.
type proc struct {
	pid, parent, group int
	dead               bool // and perhaps not reaped
}

func procs() (all []proc) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		var p proc
		var state string
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		n, _ := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &p.parent, &p.group)
		if p.dead = state == "Z" || state == "X"; n == 3 {
			all = append(all, p)
		}
	}
	return all
}

// awaitChange returns when the process has ended, and leaves it to be reaped: until then its number, and its group's, is
// its own. With stops, it returns also when the process was stopped.
func awaitChange(pid int, stops bool) int {
	changes := unix.WEXITED
	if stops {
		changes |= unix.WSTOPPED
	}
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, pid, &info, changes|unix.WNOWAIT, nil); {
		case err == unix.EINTR:
		case err == nil && info.Code == stoppedNow:
			unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) // told once
			return stoppedNow
		default:
			return endedNow
		}
	}
}
