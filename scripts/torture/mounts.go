//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const envMounts = "TORTURE_MOUNTS" // set where mounts are nobody else's

// inOwnMounts runs this program again, as root may, in a mount namespace of its own: what it mounts is seen by nobody, and
// gone with it. It returns false where that is so already, or cannot be.
func inOwnMounts() (status int, ok bool) {
	if os.Getenv(envMounts) != "" {
		return 0, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") != nil && os.Unsetenv(envMounts) != nil
	}
	self, err := os.Executable()
	if err != nil || os.Getuid() != 0 {
		return 0, false
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), envMounts+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if cmd.Start() != nil {
		return 0, false
	}
	signals := make(chan os.Signal, 4) // a terminal sends them to both
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			if s != syscall.SIGINT {
				cmd.Process.Signal(s)
			}
		}
	}()
	var left *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &left) {
		return left.ExitCode(), true
	}
	return 0, true
}
