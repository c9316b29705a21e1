//go:build !linux

package main

import "golang.org/x/sys/unix"

// CLOCK_MONOTONIC_RAW goes on in suspend on macOS.
func bootNow() boot {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t); err != nil {
		panic(err)
	}
	return boot(t.Nano())
}
