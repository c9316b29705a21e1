//go:build !linux

package main

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dieWithParent has no counterpart outside Linux.
func dieWithParent(*syscall.SysProcAttr) {}

const tellsStops = false

func isIgnored(s unix.Signal) bool { return signal.Ignored(s) }

func unignore(unix.Signal) {}

func ignoring(s unix.Signal, meanwhile func()) {
	signal.Ignore(s)
	defer signal.Reset(s)
	meanwhile()
}

func hasEnded(int) bool { return false }

// groupLives cannot tell here: what is left is killed at once.
func groupLives(int) bool { return false }

func isStopped(int) bool { return false }

func nameProcess(string) {}

func stopHere(syscall.Signal) { raise(unix.SIGSTOP) }

func raise(s unix.Signal) { unix.Kill(unix.Getpid(), s) }

func deadBelow(int) []int { return nil }

// awaitChange returns when the process has ended, and leaves it to be reaped. Of stops it does not tell here.
func awaitChange(pid int, _ bool) syscall.Signal {
	const exited, nowait = 0x04, 0x20 // WEXITED, WNOWAIT of <sys/wait.h>
	const byPID = 1                   // P_PID
	var info [128]byte
	for {
		_, _, err := unix.Syscall6(unix.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), exited|nowait, 0, 0)
		if err != unix.EINTR {
			return 0
		}
	}
}
