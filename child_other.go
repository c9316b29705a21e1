//go:build !linux

package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dieWithParent has no counterpart outside Linux.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitEnd returns when the process has ended, and leaves it to be reaped.
func awaitEnd(pid int) {
	const exited, nowait = 0x04, 0x20 // WEXITED, WNOWAIT of <sys/wait.h>
	const byPID = 1                   // P_PID
	var info [128]byte
	for {
		_, _, err := unix.Syscall6(unix.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), exited|nowait, 0, 0)
		if err != unix.EINTR {
			return
		}
	}
}
