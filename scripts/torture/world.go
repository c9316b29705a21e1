//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

const envWorld = "TORTURE_WORLD" // set where mounts and ports are nobody else's

// inOwnWorld runs this program again, as root may, with mounts and a network of its own: what it mounts and where it listens
// is seen by nobody, and gone with it. It returns false where that is so already, or cannot be.
func inOwnWorld() (status int, ok bool) {
	if os.Getenv(envWorld) != "" {
		if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), setLink(true)); err != nil {
			fmt.Fprintln(os.Stderr, "torture:", err)
			return 2, true
		}
		return 0, false
	}
	self, err := os.Executable()
	if err != nil || os.Getuid() != 0 {
		return 0, false
	}
	exec.Command("go", "mod", "download").Run() // there nothing can be had
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), envWorld+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
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
