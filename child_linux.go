package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when onceonly dies, even by KILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = unix.SIGKILL }

const (
	endedNow   = 1
	stoppedNow = 5 // CLD_STOPPED of <signal.h>
)

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
