package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when onceonly dies, even by KILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = unix.SIGKILL }

// tellsStops says whether awaitChange tells of stops.
const tellsStops = true

// An action is what becomes of a signal, as the kernel has it: first the handler, or one of two words.
type action [4]uint64

var (
	byDefault = action{0}
	ignored   = action{1}
)

// setAction is not for os/signal, which gives back no signal that it has once ignored. It returns what was before.
func setAction(s unix.Signal, now *action) (before action) {
	const signals = 8 // bytes of a set of them
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(now)), uintptr(unsafe.Pointer(&before)), signals, 0, 0)
	return before
}

func isIgnored(s unix.Signal) bool { return setAction(s, nil)[0] == ignored[0] }

// ignoring ignores a signal meanwhile.
func ignoring(s unix.Signal, meanwhile func()) {
	before := setAction(s, &ignored)
	meanwhile()
	setAction(s, &before)
}

// unignore is for a signal that os/signal ignores.
func unignore(s unix.Signal) { setAction(s, &byDefault) }

// stopHere stops the process as a command was stopped, and its group with it, until somebody lets it go on. ^Z stops nobody whom
// nobody could let go on.
func stopHere(by syscall.Signal) {
	tellGroup(unix.SIGTSTP)
	if by != unix.SIGTSTP && isOrphaned() { // it would be asked for again and again
		by = unix.SIGSTOP
	}
	before := setAction(by, &byDefault)
	raise(by)
	setAction(by, &before)
}

// raise returns when the signal has done what it does: one to the process may be any thread's, and this one would run on for a
// moment.
func raise(s unix.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
}

// isOrphaned says whether our group has nobody above it, in the same session, who could let it go on.
func isOrphaned() bool {
	all, group := procs(), unix.Getpgrp()
	session, _ := unix.Getsid(0)
	above := map[int]bool{}
	for _, p := range all {
		above[p.pid] = p.session == session && p.group != group
	}
	return !slices.ContainsFunc(all, func(p proc) bool { return p.group == group && above[p.parent] })
}

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
	pid, parent, group, session int
	dead                        bool // and perhaps not reaped
}

func procs() (all []proc) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		var p proc
		var state string
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		n, _ := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &p.parent, &p.group, &p.session)
		if p.dead = state == "Z" || state == "X"; n == 4 {
			all = append(all, p)
		}
	}
	return all
}

// awaitChange returns 0 when the process has ended, and leaves it to be reaped: until then its number, and its group's, is
// its own. With stops, it returns also when the process was stopped, and the signal that did it.
func awaitChange(pid int, stops bool) (stop syscall.Signal) {
	const stopped = 5 // CLD_STOPPED of <signal.h>
	changes := unix.WEXITED
	if stops {
		changes |= unix.WSTOPPED
	}
	for {
		var info childInfo
		switch err := unix.Waitid(unix.P_PID, pid, (*unix.Siginfo)(unsafe.Pointer(&info)), changes|unix.WNOWAIT, nil); {
		case err == unix.EINTR:
		case err == nil && info.code == stopped:
			unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil) // told once
			return syscall.Signal(info.status)
		default:
			return 0
		}
	}
}

// A childInfo is the siginfo_t of <signal.h> about a child.
type childInfo struct {
	signo, errno, code int32
	_                  [0]uintptr // what follows stands at a pointer's boundary
	pid, uid, status   int32
	_                  [128]byte
}
