package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when onceonly dies, even by KILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = unix.SIGKILL }

// awaitEnd returns when the process has ended, and leaves it to be reaped: until then its number, and its group's, is
// its own.
func awaitEnd(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}
