//go:build !linux

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// CLOCK_MONOTONIC_RAW goes on in suspend on macOS.
func bootNow() boot {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t); err != nil {
		panic(err)
	}
	return boot(t.Nano())
}

// A bootTimer fires at an instant, late by as long as the machine slept.
type bootTimer struct {
	c     chan struct{}
	timer *time.Timer
}

func newBootTimer() *bootTimer { return &bootTimer{c: make(chan struct{}, 1)} }

func (t *bootTimer) set(at boot) {
	t.stop()
	t.timer = time.AfterFunc(max(at.until(), 0), func() {
		select {
		case t.c <- struct{}{}:
		default:
		}
	})
}

func (t *bootTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// readable waits until there is something to read, or the end, and returns true; false if the instant comes before.
func readable(fd int, until boot) bool {
	for {
		left := max(min(until.until(), time.Minute), 0)
		one := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(one, int(left.Milliseconds())+1)
		switch {
		case n > 0:
			return true
		case err != nil && err != unix.EINTR:
			return false
		case until.past():
			return false
		}
	}
}
