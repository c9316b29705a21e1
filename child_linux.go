package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when onceonly dies, even by KILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = unix.SIGKILL }

const (
	endedNow   = 1
	stoppedNow = 5 // CLD_STOPPED of <signal.h>
)

// hasEnded says whether the process has ended and is not yet reaped.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// groupLives says whether a process of the group is left that has not ended. To send signal 0 would not tell: a leader that
// is not reaped counts.
func groupLives(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		fields := strings.Fields(rest) // state, parent, group
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
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
