//go:build linux

package main

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// A namespace is a network and a host name that only one host has: a thread that lives there and does what it is told. What
// it starts and where it listens belongs there too.
type namespace struct{ todo chan func() }

// newNamespace returns nil where the machine allows none.
func newNamespace(host string) *namespace {
	n, up := &namespace{make(chan func())}, make(chan error)
	go func() {
		runtime.LockOSThread()
		back, err := leave(host)
		up <- err
		for f := range n.todo {
			f()
		}
		if !back() { // a thread that ends would take with it the servers that it has started before
			select {}
		}
		runtime.UnlockOSThread()
	}()
	if <-up != nil {
		n.close()
		return nil
	}
	return n
}

// leave moves the calling thread into namespaces of its own; the function that it returns moves it back.
func leave(host string) (back func() bool, err error) {
	kinds := []string{"net", "uts"}
	before := make([]int, len(kinds))
	for i, kind := range kinds {
		if before[i], err = unix.Open("/proc/thread-self/ns/"+kind, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return func() bool { return true }, err
		}
	}
	back = func() bool {
		moved := true
		for _, fd := range before {
			moved = unix.Setns(fd, 0) == nil && moved
			unix.Close(fd)
		}
		return moved
	}
	if err = unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS); err != nil {
		return back, err
	}
	return back, errors.Join(unix.Sethostname([]byte(host)), setLink(true))
}

// do returns when it is done there; without a namespace, here.
func (n *namespace) do(f func()) {
	if n == nil {
		f()
		return
	}
	done := make(chan struct{})
	n.todo <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (n *namespace) close() {
	if n != nil {
		close(n.todo)
	}
}

// setLink sets the loopback interface of the caller's network up or down.
func setLink(up bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	link, err := unix.NewIfreq("lo")
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, link)
	}
	if err != nil {
		return err
	}
	flags := link.Uint16() &^ unix.IFF_UP
	if up {
		flags |= unix.IFF_UP
	}
	link.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, link)
}
